/** Real replies of providers and common servers, by their meaning for the email. rules.test.ts tests each rule. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifyReply } from './classify.ts';
import { ReplyParser, type SmtpPhase } from './smtp-reply.ts';

/** `means`: the category and the outcome. `suppressed` means bounced and suppressed. */
type RealReplies = { at: SmtpPhase; means: string; said: readonly string[] };

const REAL_REPLIES: readonly RealReplies[] = [
  {
    at: 'mail',
    means: 'policy, deferred',
    said: [
      '421 4.7.28 Our system has detected an unusual rate of unsolicited mail originating from your IP Netblock [192.0.2.0 35]. To protect our users from spam, mail sent from your IP Netblock has been temporarily rate limited.',
      '451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (AS77712114)',
      "421 RP-001 (BAY0-MC1-F1) Unfortunately, some messages from 192.0.2.1 weren't sent. Please try again. We have limits for how many messages can be sent per hour and per day.",
    ],
  },
  {
    at: 'data',
    means: 'content, bounced',
    said: [
      '550 5.7.1 [192.0.2.1 12] Our system has detected that this message is likely unsolicited mail. To reduce the amount of spam sent to Gmail, this message has been blocked.',
      '554 5.7.1 [CS01] Message rejected due to local policy. Please visit https://support.apple.com/en-us/HT204137',
      '554 5.7.1 [HM07] Message rejected due to local policy.',
      '554 DT:SPM 126 smtp2,xx http://mail.163.com/help/help_spam_16.htm',
      '550 spam message rejected. Please visit http://help.mail.ru/notspam-support/id?c=x',
      '554 5.7.1 [1] Message rejected under suspicion of SPAM; https://ya.cc/1IrBc',
      '552 5.3.4 Error: message file too big',
    ],
  },
  {
    at: 'data',
    means: 'authentication, bounced',
    said: [
      '550 5.7.26 Your email has been blocked because the sender is unauthenticated. Gmail requires all senders to authenticate with either SPF or DKIM.',
      "550 5.7.515 Access denied, sending domain acme.test doesn't meet the required authentication level.",
      '550 SPF check failed. http://service.mail.qq.com/',
    ],
  },
  {
    at: 'rcpt',
    means: 'mailbox, suppressed',
    said: [
      '550 5.2.1 The email account that you tried to reach is inactive.',
      '550 5.1.1 RESOLVER.ADR.ExRecipNotFound; not found',
      '550 5.4.1 Recipient address rejected: Access denied. AS(201806281)',
      '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
      '550 5.1.1 <jo@icloud.com>: user does not exist',
      '550 5.1.1 Not our Customer',
      '550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550',
      '550 5.1.1 <jo@acme.test>: Recipient address rejected: User unknown in relay recipient table',
      '550 Unrouteable address',
      '550 User not found',
      '550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022&&no=1000728',
      '550 Message was not accepted -- invalid mailbox.  Local mailbox jo@mail.ru is unavailable: user not found',
      '550 Message was not accepted -- invalid mailbox.  Local mailbox jo@mail.ru is unavailable: account is disabled',
      '550 5.7.1 No such user! 1234',
      '550 5.1.1 Adresse d au moins un destinataire invalide. Invalid recipient. OFR204_416 [416]',
      '550 5.1.6 recipient no longer on server: jo@icloud.com',
      '550 5.1.2 <jo@acme.test>: Recipient address rejected: Domain not found',
      '550 5.1.1 sorry, no mailbox here by that name (#5.1.1 - chkuser)',
      '550 5.1.1 Email address could not be found, or was misspelled (G8)',
      '550 5.2.1 <jo@acme.test> Mailbox disabled for this recipient',
    ],
  },
  {
    at: 'rcpt',
    means: 'quota, deferred',
    said: [
      "552 5.2.2 The recipient's inbox is out of storage space and inactive. Please direct the recipient to https://support.google.com/mail/?p=OverQuotaPerm",
      "452 4.2.2 The recipient's inbox is out of storage space.",
      '450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.',
      '552 5.2.2 Mailbox is full',
    ],
  },
  {
    at: 'rcpt',
    means: 'content, deferred',
    said: [
      '421 4.7.0 [192.0.2.1 15] Our system has detected that this message is suspicious due to the nature of the content and/or the links within.',
    ],
  },
  {
    at: 'data',
    means: 'policy, bounced',
    said: [
      '550 5.7.1 Message violates acme.test email policy. - gcdp x - gsmtp',
      '554 5.7.9 Message not accepted for policy reasons.',
    ],
  },
  {
    at: 'rcpt',
    means: 'reputation, bounced',
    said: [
      '550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using Spamhaus. To request removal from this list see https://www.spamhaus.org/query/ip/192.0.2.1 (AS3130).',
      '550 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using FBLW15; To request removal from this list please forward this message to delist@messaging.microsoft.com',
      '550 5.7.511 Access denied, banned sender[192.0.2.1]',
      '550 5.7.0 Blocked - see https://support.proofpoint.com/dnsbl-lookup.cgi?ip=192.0.2.1',
      '550 5.7.1 Recipient not authorized, your IP has been found on a block list',
    ],
  },
  {
    at: 'mail',
    means: 'reputation, bounced',
    said: [
      "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
      "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in Spamhaus's list",
    ],
  },
  {
    at: 'rcpt',
    means: 'greylist, deferred',
    said: [
      '451 4.7.0 Temporary server error. Please try again later. PRX5',
      '451 Internal resource temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451',
      '450 4.2.0 <jo@acme.test>: Recipient address rejected: Greylisted',
    ],
  },
  {
    at: 'rcpt',
    means: 'mailbox, bounced',
    said: [
      '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302).',
      '550 #5.1.0 Address rejected.',
      '550 Callout verification failed',
      '550 Mailbox unavailable or access denied [x]. http://service.mail.qq.com',
      '550 Account is not active',
    ],
  },
  {
    at: 'rcpt',
    means: 'mailbox, deferred',
    said: [
      '552 1 Requested mail action aborted, mailbox not found',
      '450 4.1.2 <jo@acme.test>: Recipient address rejected: Domain not found',
    ],
  },
  {
    at: 'data',
    means: 'mailbox, suppressed',
    said: [
      '554 30 Sorry, your message to jo@aol.com cannot be delivered. This mailbox is disabled (554.30).',
    ],
  },
  {
    at: 'greeting',
    means: 'reputation, deferred',
    said: [
      '554 resimta-po-40v.sys.comcast.net comcast 192.0.2.1 Comcast block for spam.  Please see http://postmaster.comcast.net/smtp-error-codes.php#BL000000',
      "554 mx1 Your access to this mail system has been rejected due to the sending MTA's poor reputation.",
    ],
  },
  {
    at: 'rcpt',
    means: 'policy, bounced',
    said: [
      '550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550',
      '550 5.1.0 <b@acme.test>: Sender address rejected: User unknown in virtual mailbox table',
      '554 5.7.1 <unknown[192.0.2.1]>: Client host rejected: Access denied',
      '550 Verification failed for <b@acme.test> 550-No Such User Here" 550 Sender verify failed',
      '550 relay not permitted',
      '550 5.7.1 <jo@acme.test>... Relaying denied. Proper authentication required.',
      '554 5.7.1 <jo@acme.test>: Relay access denied',
      '504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname',
      "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
    ],
  },
  {
    at: 'rcpt',
    means: 'authentication, bounced',
    said: [
      '550 Rejected by header based Anti-Spoofing policy',
      "511 sorry, can't find a valid MX for sender domain (#5.1.1 - chkuser)",
      '550 5.1.1 Recipient rejected by SPF policy',
    ],
  },
  {
    at: 'rcpt',
    means: 'network, deferred',
    said: [
      '451 Temporary local problem - please try later',
      '450 4.3.2 Service currently unavailable',
      '451 4.3.5 Server configuration error',
    ],
  },
  {
    at: 'rcpt',
    means: 'policy, deferred',
    said: [
      '550 Domain acme.test has exceeded the max defers and failures per hour (5/5 (100%)) allowed. Message discarded.',
    ],
  },
  {
    at: 'greeting',
    means: 'policy, deferred',
    said: ['421 Too many connections, slow down. OFR004_104 [104]'],
  },
  {
    at: 'rcpt',
    means: 'authentication, deferred',
    said: ['450 4.7.1 Client host rejected: cannot find your hostname, [192.0.2.1]'],
  },
  {
    at: 'mail',
    means: 'policy, bounced',
    said: ['501 5.1.7 Bad sender address syntax'],
  },
  {
    at: 'mail',
    means: 'tls, bounced',
    said: ['530 5.7.0 Must issue a STARTTLS command first'],
  },
  {
    at: 'rcpt',
    means: 'tls, bounced',
    said: ['550 5.7.1 TLS required by recipient domain'],
  },
  {
    at: 'data',
    means: 'network, bounced',
    said: ['554 5.4.0 Error: too many hops'],
  },
  {
    at: 'rcpt',
    means: 'protocol, deferred',
    said: ['421 4.7.0 Error: too many errors'],
  },
  {
    at: 'rcpt',
    means: 'quota, bounced',
    said: ['550 This account is not allowed to receive mail because it is over quota'],
  },
  {
    at: 'rcpt',
    means: 'content, bounced',
    said: ['550 5.1.1 User unknown; message identified as spam'],
  },
];

for (const { at, means, said } of REAL_REPLIES) {
  test(`${means}: replies to ${at}`, () => {
    for (const text of said) assert.equal(meaningOf(text, at), means, text);
  });
}

function meaningOf(text: string, phase: SmtpPhase): string {
  const [reply] = new ReplyParser().push(Buffer.from(`${text}\r\n`)).replies;
  assert.ok(reply, text);
  const { category, permanent, suppress } = classifyReply({ phase, reply });
  const end = permanent ? (suppress ? 'suppressed' : 'bounced') : 'deferred';
  return `${category}, ${end}`;
}
