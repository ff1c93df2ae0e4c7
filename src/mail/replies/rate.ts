/**
 * "Not now": greylists, and limits on connections, messages and recipients (rules.ts). Several
 * providers say so with a 5xx; it passes all the same.
 */
import type { Rule } from './meanings.ts';

export const RATE: readonly Rule[] = [
  {
    means: 'greylisted',
    text: 'greylist | graylist | grey list | gray list | grey-list | gray-list | postgrey',
    example: '450 4.2.0 <jo@acme.test>: Recipient address rejected: Greylisted, see help',
  },
  {
    // Yahoo.
    means: 'greylisted',
    text: '[gl01]',
    example: '451 4.3.2 Message temporarily deferred - [GL01]',
    phase: 'data',
  },
  {
    // Mimecast greylists in these words.
    means: 'greylisted',
    text: 'internal resource temporarily | internal resources are temporarily',
    example: '451 Internal resources are temporarily unavailable - see the documentation',
  },
  {
    means: 'greylisted',
    text: 'not yet authorized to deliver | wait a while | first contact | seconds and try | early retry',
    example: '450 <jo@acme.test>: Recipient address rejected: wait 300 seconds and try again',
  },
  {
    // Gmail.
    means: 'mailbox_too_busy',
    text: 'receiving mail at a rate | receiving mail too quickly | receiving email too quickly',
    example: '550 5.2.1 The user you are trying to contact is receiving mail at a rate that ...',
  },
  {
    means: 'mailbox_too_busy',
    text: 'p=receivingrate | recipient thread limit | ratelimit exceeded for mailbox',
    example: '432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded',
    phase: 'data',
  },
  {
    means: 'mailbox_too_busy',
    text: 'recipient + too many messages | mailbox + too many mails | user + received too many',
    example: '450 4.2.1 The recipient has too many messages waiting just now',
  },
  {
    // 163.com and 126.com: hourly numbers of messages, connections, recipients.
    means: 'rate_limited',
    text: 'hl:ifc | hl:icc | hl:itc | hl:irc | mi:dmc | mi:sfq | mi:cel | mi:ccl | mi:sti',
    example: '421 HL:ICC 163 smtp9, too much open to your address',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'rp:drc | rp:qrc | rp:trc | rp:cel | rp:ccl',
    example: '550 RP:TRC 163 smtp10, over for this hour',
  },
  {
    // QQ: for the address, the sender's name and the connections.
    means: 'rate_limited',
    text: 'frequency limited | frequency limit',
    example: '550 Ip frequency limited [Blocked IP 192.0.2.1]. http://service.mail.qq.test/help',
  },
  {
    // Yahoo's, before the word for a rate is looked for.
    means: 'blocked_for_now',
    text: '[ts0 | [tss0 | [tss1 | [ipts0 | temporarily deferred',
    example: '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred: unexpected volume',
    phase: 'mail',
  },
  {
    means: 'blocked_for_now',
    text: 'unusual rate of unsolicited | p=unsolicitedratelimiterror',
    example: '421 4.7.0 Our system has detected an unusual rate of unsolicited mail from your IP',
    phase: 'data',
  },
  {
    means: 'blocked_for_now',
    text: 'temporarily rate limited due to ip reputation | deferred due to ip reputation',
    example: '451 4.7.0 The server has been temporarily rate limited due to IP reputation.',
    phase: 'mail',
  },
  {
    means: 'blocked_for_now',
    text: 'temporarily blocked | temporarily blacklisted | temporarily banned | temporary block',
    example: '550 Your address 192.0.2.1 is temporarily blocked',
  },
  {
    // Free.
    means: 'blocked_for_now',
    text: 'too many spams from your ip | too many errors from your ip | too many invalid recipients',
    example: '550 Too many spams from your IP (192.0.2.1), please visit the postmaster page',
    phase: 'greeting',
  },
  {
    // Comcast.
    means: 'blocked_for_now',
    text: 'rl000001 | rl000002 | rl000003 | rl000010',
    example: '421 comcast 192.0.2.1 Throttled - try later. See ... RL000001',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'rate limit | ratelimit | rate-limit | throttl | too fast | slow down | slowdown',
    example: '451 4.7.1 The mail server [192.0.2.1] has been throttled',
    phase: 'mail',
  },
  {
    // Orange and Laposte number their answers.
    means: 'rate_limited',
    text: 'trop de connexions | ofr004_104 | ofr_104 | lpn004_104',
    example: '421 mwinf5c Trop de connexions, veuillez verifier votre configuration OFR004_104',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'too many connections | too many concurrent | too many simultaneous | too many sessions',
    example: '421 4.3.2 Too many connections from your host',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'connection limit | connections exceeded | maximum number of connections | max connections',
    example: '421 Exceeded the maximum number of connections (S3115)',
    phase: 'greeting',
  },
  {
    means: 'rate_limited',
    text: 'too many messages | too many emails | too many mails | too much mail | excessive volume',
    example: '421 4.7.1 Messages to this server are deferred due to excessive volume',
    phase: 'data',
  },
  {
    means: 'rate_limited',
    text: 'max message per connection | messages per connection | messages in one session',
    example: '421 Max message per connection reached, closing transmission channel',
    phase: 'mail',
  },
  {
    means: 'rate_limited',
    text: 'sending limit | hourly limit | daily limit | sending quota | exceeded the max emails per hour',
    example: '550 5.4.5 Daily user sending limit exceeded',
    phase: 'data',
  },
  {
    means: 'rate_limited',
    text: 'received this hour | this hour, try | per hour exceeded | sent too many | max defers',
    example: '452 Too many recipients received this hour',
  },
  {
    means: 'rate_limited',
    text: 'rp-001 | rp-002 | rp-003 | limits for how many | peak smtp relay limit | sending rate | message rate',
    example: '450 4.2.1 Peak SMTP relay limit exceeded for the customer',
    phase: 'mail',
  },
  {
    means: 'too_many_recipients',
    text: 'too many recipients | too many rcpt | maximum number of recipients | recipients limit',
    example: '552 Too many recipients',
  },
  {
    means: 'too_many_recipients',
    text: 'multiple destination domains per transaction | domain policy size per transaction',
    example: '451 4.3.0 Multiple destination domains per transaction is unsupported.',
  },
];
