/**
 * Replies about this server (rules.ts). First temporary refusals: greylisting, and limits on connections,
 * messages and recipients, which several providers send as a 5xx. Then the reputation of this server or the
 * domain: blocklists, scores, kinds of address.
 */
import type { Rule } from './match.ts';

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
    // Mimecast's text for greylisting.
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
    // Yahoo's codes precede the rules for rate limits.
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
    // Orange and Laposte have numbered replies.
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

export const REPUTATION: readonly Rule[] = [
  {
    // Comcast's ES codes, Spamhaus' PBL, Yahoo's DU: addresses of residential connections.
    means: 'dynamic_address',
    text: 'dynamic ip | dynamic/residential | residential ip | dial-up | dialup | es000010',
    example: '550 We do not accept mail from hosts with dynamic IP or generic DNS PTR-records.',
    phase: 'mail',
  },
  {
    means: 'dynamic_address',
    text: 'pbl.spamhaus | spamhaus pbl | [du] | dul.dnsbl | generic ptr | generic rdns | dynamic host',
    example: '554 5.7.1 Client host [192.0.2.1] blocked using pbl.spamhaus.org',
  },
  {
    // A blocklist of links: refuses the message, not the server.
    means: 'bad_link',
    text: 'uribl | surbl | blacklisted url | url in this email | dbl.spamhaus + url | ivmuri',
    example: '550 REJECTED - Blacklisted URL in message. See http://lookup.uribl.com',
    phase: 'data',
  },
  {
    means: 'blocklisted',
    text: 'spamhaus | zen.dnsbl | sbl-xbl | /sbl/ | /query/bl',
    example:
      '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org',
  },
  {
    means: 'blocklisted',
    text: 'spamcop | sorbs | surriel | uceprotect | abusix | barracudacentral | mailspike',
    example: '550 Blocked - see https://www.spamcop.test/bl.shtml?192.0.2.1',
  },
  {
    means: 'blocklisted',
    text: 'invaluement | spamrats | nixspam | s5h.net | spfbl | hostkarma | senderbase | cloudmark',
    example: '550 5.7.1 Listed in ivmSIP, see https://www.invaluement.test/lookup',
  },
  {
    means: 'blocklisted',
    text: 'blocklist | block list | blacklist | black list | black-list | denylist | deny list',
    example: '550 5.1.1 Sorry, 192.0.2.1 is on our local blacklist',
  },
  {
    means: 'blocklisted',
    text: 'blocked list | block-list | ip on list | dnsbl | by rbl | in rbl | an rbl | rbl deny',
    example: '554 5.7.1 192.0.2.1 is in a DNSBL',
  },
  {
    // 163.com.
    means: 'blocklisted',
    text: 'dt:rbl | wm:bli | wm:blu | hl:rbl',
    example: '450 DT:RBL 163 smtp3, 192.0.2.1 is in one or more',
  },
  {
    // Proofpoint, also used by iCloud.
    means: 'blocklisted',
    text: 'ipcheck.proofpoint | pdr: | dynamic reputation',
    example: '550 5.7.0 Blocked - see https://ipcheck.proofpoint.test/?ip=192.0.2.1',
    phase: 'greeting',
  },
  {
    means: 'blocklisted',
    text: 'banned sending ip | banned sender | ip blocked | ip is blocked | blocked ip | ip banned',
    example: '550 5.7.1 Access denied, banned sending IP [192.0.2.1]',
  },
  {
    means: 'blocklisted',
    text: 'blocked using | listed at | listed by | is listed on | found on one or more',
    example: '554 5.7.1 Client host [192.0.2.1] blocked using Barracuda Reputation',
  },
  {
    // Comcast, then Yahoo.
    means: 'blocklisted',
    text: 'bl000000 | bl000001 | bl000010 | bl000100 | bl000111 | bl001000 | [bl21] | [bl23]',
    example: '554 resimta 192.0.2.1 found on the provider list. See ... BL000000',
    phase: 'greeting',
  },
  {
    // T-Online, for addresses without a reputation as well as for bad ones.
    means: 'blocklisted',
    text: 'a problem occurred. + (bl)',
    example: '554 IP=192.0.2.1 - A problem occurred. (Ask your postmaster for help.) (BL)',
    phase: 'greeting',
  },
  {
    // Cox and Spectrum.
    means: 'blocklisted',
    text: 'aup#cdrbl | aup#cxmj | aup#cxsnd | aup#bl | aup#blk | aup#i-1',
    example: '550 5.1.0 <b@acme.test> sender rejected. AUP#CDRBL',
  },
  {
    means: 'rate_limited',
    text: 'aup#in-1 | aup#mxrt | aup#cxmxrt | aup#1310 | aup#o-',
    example: '550 5.1.0 <b@acme.test> sender rejected. AUP#In-1310',
  },
  {
    // Outlook.com: the network, the address, the domain.
    means: 'low_reputation',
    text: '(s3140) | (s3150) | (s844) | (s3114) | (s775) | sc-001 | sc-002 | sc-003 | sc-004',
    example: "550 5.7.1 Messages from [192.0.2.1] weren't sent. Contact your provider (S3150).",
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    text: 'too many unwanted messages | traffic not accepted from this ip | spam abuse detected',
    example: '550 The problem is that too many unwanted messages have come from 192.0.2.1',
    phase: 'mail',
  },
  {
    // Cisco.
    means: 'low_reputation',
    text: "mta's poor | your access to this mail system | access to submit messages",
    example: '554 Your access to this mail system has been rejected due to its record.',
    phase: 'greeting',
  },
  {
    means: 'low_reputation',
    text: 'reputation',
    example: '550 5.7.1 Likely suspicious due to the very low reputation of the sending IP address',
    phase: 'data',
  },
  {
    means: 'low_reputation',
    text: 'user complaints | complaint rate | complaints from users | spam rate | senderscore',
    example: '554 Message not accepted because of user complaints',
    phase: 'data',
  },
  {
    // AOL's former codes still occur behind other gateways.
    means: 'low_reputation',
    text: 'rtr:bl | rtr:ge | rly:b | dyn:t1 | hvu:b',
    example: '554 RTR:BL http://postmaster.info.test/errors/554rtrbl.html',
    phase: 'greeting',
  },
  {
    // 163.com: much mail to addresses that do not exist, forged domains.
    means: 'low_reputation',
    text: 'hl:rep | hl:mep | hl:ihu',
    example: '421 HL:REP 163 smtp7, bad behaviour',
    phase: 'greeting',
  },
  {
    // Orange and Laposte.
    means: 'low_reputation',
    text: 'service refuse. + service refused | ofr004_105 | ofr005_505 | lpn005_505',
    example: '421 4.2.0 Service refuse. Veuillez essayer plus tard. Service refused, try later.',
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    text: 'suspected spam sender | spam sender | known spammer | spam source | source of spam',
    example: '550 Suspected spam sender. http://service.mail.qq.test/help',
  },
  {
    means: 'low_reputation',
    text: 'your network + blocked | your ip + blocked | your ip + rejected | your server + blocked',
    example: '550 Mail from your IP range has been blocked',
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    text: 'ip is rejected | ip is hangup | invalid ip | black ip | host blocked | client host blocked',
    example: '550 Requested mail action not taken: IP is rejected',
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    text: 'client host [ + blocked | ] has been blocked | ] is blocked | ] blocked',
    example: '550 5.7.1 Client host [192.0.2.1] blocked',
  },
  {
    means: 'low_reputation',
    text: 'ip address + has been blocked | ip address is blocked | host has been blocked | server has been blocked',
    example: '550 5.7.1 The IP address 192.0.2.1 has been blocked',
    phase: 'mail',
  },
];

/** Whoever says no more than this blocks the server, unless an earlier rule knows it to be about something else. */
export const BARE_BLOCKS: readonly Rule[] = [
  {
    means: 'refused_by_policy',
    codes: [550, 552, 553, 554, 571],
    text: 'blocked + policy | blocked + policies | blocked by + rule | blocked by + administrator | blocked by us',
    example: '550 5.7.1 Blocked by policy',
    phase: 'data',
  },
  {
    means: 'refused_by_policy',
    codes: [550, 552, 553, 554, 571],
    text: 'mail has been blocked | mail is blocked | mail was blocked | domain + blocked | sender + blocked',
    example: '550 5.7.1 Your mail has been blocked',
    phase: 'data',
  },
  {
    means: 'low_reputation',
    codes: [550, 552, 553, 554, 571],
    text: '^blocked | has been blocked | you are blocked | connection blocked | access blocked',
    example: '550 5.7.1 blocked',
  },
];
