/**
 * Answers about the sender: reputation, rate, authentication, content (classify-rules.ts). They
 * are looked for first, whatever the code says.
 */
import type { Rule } from './classify-rules.ts';

export const REPUTATION: readonly Rule[] = [
  {
    means: 'greylisted',
    text: 'greylist | graylist | grey list | gray list | grey-list',
    example: '450 4.2.0 <jo@acme.test>: Recipient address rejected: Greylisted, see help',
  },
  {
    means: 'low_reputation',
    text: 'reputation',
    example: '550 5.7.1 Likely suspicious due to the very low reputation of the sending IP address',
    phase: 'dot',
  },
  {
    means: 'low_reputation',
    text: 'user complaints | [ts0 | [tss0 | unusual rate of unsolicited',
    example: '421 4.7.0 [TSS04] Messages temporarily deferred due to unexpected volume',
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    text: 'network is on our block list | too many unwanted messages',
    example: "550 5.7.1 Messages weren't sent; part of their network is on our block list (S3140).",
    phase: 'mail',
  },
  {
    means: 'blocklisted',
    text: 'spamhaus | spamcop | barracudacentral | sorbs.net | surriel | uceprotect | abusix',
    example:
      '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org',
  },
  {
    means: 'blocklisted',
    text: 'blocklist | block list | blacklist | black list | denylist | dnsbl | by rbl | in rbl',
    example: '550 5.1.1 Sorry, 192.0.2.1 is on our local blacklist',
  },
  {
    means: 'blocklisted',
    text: 'banned sending ip | ip blocked | blocked using | ip is blocked | listed at | listed by',
    example: '550 5.7.606 Access denied, banned sending IP [192.0.2.1]',
  },
  {
    means: 'blocklisted',
    enhanced: ['1.0'],
    text: 'aup# | sender rejected',
    example: '550 5.1.0 <b@acme.test> sender rejected. AUP#CDRBL',
  },
  {
    means: 'mailbox_too_busy',
    text: 'receiving mail at a rate | receiving mail too quickly | receiving email too quickly',
    example: '550 5.2.1 The user you are trying to contact is receiving mail at a rate that ...',
  },
  {
    means: 'rate_limited',
    text: 'rate limit | ratelimit | rate-limit | frequency limited | throttl | too fast',
    example: '451 4.7.1 The mail server [192.0.2.1] has been temporarily rate limited',
    phase: 'mail',
  },
  {
    means: 'rate_limited',
    text: 'too many connections | too many concurrent | too many sessions | connection limit',
    example: '421 4.3.2 Too many connections from your host',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'too many messages | too many emails | too many mails | sending limit | hourly limit',
    example: '550 5.4.5 Daily user sending limit exceeded',
    phase: 'dot',
  },
];

export const AUTHENTICATION: readonly Rule[] = [
  {
    means: 'no_reverse_dns',
    text: 'reverse dns | reverse-dns | ptr record | rdns | no ptr | mismatches client ip',
    example: '554 5.7.1 Your server needs a PTR record with a valid reverse DNS entry',
  },
  {
    means: 'no_reverse_dns',
    enhanced: ['7.25'],
    example: '550 5.7.25 The sending IP does not match the name that it resolves to',
  },
  {
    means: 'bad_helo',
    text: 'helo command rejected | invalid helo | bad helo | ehlo name | helo name',
    example: '504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname',
  },
  {
    means: 'not_authenticated',
    text: 'dmarc | dkim | spf check | spf record | spf fail | (spf) | spf validation',
    example: "550 5.7.1 Email from acme.test is not accepted due to domain's DMARC policy.",
    phase: 'dot',
  },
  {
    means: 'not_authenticated',
    text: 'unauthenticated | fails authentication | sender authentication | sender id',
    example: '550 5.7.1 This mail is unauthenticated, which poses a security risk',
    phase: 'dot',
  },
  {
    means: 'not_authenticated',
    enhanced: ['7.20', '7.21', '7.22', '7.23', '7.24', '7.26', '7.27', '7.509', '7.515'],
    example: '550 5.7.515 Access denied, sending domain does not meet the required level.',
    phase: 'dot',
  },
  {
    means: 'sender_refused',
    enhanced: ['1.7', '1.8'],
    example: '553 5.1.8 <b@acme.test>... Domain of sender address does not exist',
    phase: 'mail',
  },
  {
    means: 'sender_refused',
    text: 'sender address rejected | sender verify failed | unroutable sender | sender denied',
    example: '550 5.1.0 Sender verify failed',
  },
  {
    means: 'tls_required',
    text: 'must issue a starttls | starttls first | tls required | requires tls | over tls',
    example: '530 5.7.0 Must issue a STARTTLS command first',
    phase: 'mail',
  },
  {
    means: 'tls_required',
    enhanced: ['7.10', '7.29', '7.30'],
    example: '421 4.7.29 The connection was not encrypted',
    phase: 'mail',
  },
];

export const CONTENT: readonly Rule[] = [
  {
    means: 'virus',
    text: 'virus | malware | phish | potential security issue | dangerous',
    example: '552 5.7.0 Blocked because its content presents a potential security issue.',
    phase: 'dot',
  },
  {
    means: 'spam',
    text: 'unsolicited | bulk mail | bulk email | ube,',
    example: '550 5.7.1 Our system has detected that this message is likely unsolicited mail.',
    phase: 'dot',
  },
  {
    means: 'spam',
    text: 'as spam | is spam | spam message | spam detected | spam content | spam score',
    example: '554 5.7.1 Message rejected as spam by content filtering',
    phase: 'dot',
  },
  {
    means: 'spam',
    text: 'like spam | considered spam | probability of spam | spam filter | antispam | anti-spam',
    example: '550 High probability of spam',
    phase: 'dot',
  },
  {
    means: 'spam',
    text: 'content rejected | message filtered | content filter | suspicious content | url in mess',
    example: '550 5.2.0 Message Filtered',
    phase: 'dot',
  },
  {
    means: 'bad_format',
    text: 'rfc 5322 | rfc 2822 | rfc5322 | rfc2822 | duplicate header | missing a valid',
    example: '550 5.7.1 Messages missing a valid address in the From: header are not accepted',
    phase: 'dot',
  },
  {
    means: 'bad_format',
    text: 'bare lf | bare <lf> | line limit exceeded | line too long | lines longer',
    example: '500 Line limit exceeded',
    phase: 'dot',
  },
  {
    means: 'too_big',
    enhanced: ['2.3', '3.4'],
    example: '552 5.3.4 Message size exceeds fixed limit',
    phase: 'mail',
  },
  {
    means: 'too_big',
    text: 'message too big | message too large | size exceeds | message length exceeds',
    example: '554 Message too large for this recipient',
    phase: 'dot',
  },
];
