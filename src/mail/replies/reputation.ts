/**
 * Replies about this server (rules.ts). The first list contains temporary refusals: greylisting, and limits on
 * connections, messages and recipients, which several providers send as a 5xx. The second contains the reputation of
 * this server or the domain: blocklists, scores, kinds of address.
 */
import { type Rule, rulesFor } from './rule-matching.ts';

export const RATE: readonly Rule[] = [
  ...rulesFor('greylisted', {
    '450 4.2.0 <jo@acme.test>: Recipient address rejected: Greylisted, see help':
      'greylist | graylist | grey list | gray list | grey-list | gray-list | postgrey',
    // Yahoo.
    '[data] 451 4.3.2 Message temporarily deferred - [GL01]': '[gl01]',
    // Mimecast's text for greylisting.
    '451 Internal resources are temporarily unavailable - see the documentation':
      'internal resource temporarily | internal resources are temporarily',
    '450 <jo@acme.test>: Recipient address rejected: wait 300 seconds and try again':
      'not yet authorized to deliver | wait a while | first contact | seconds and try | early retry',
  }),
  ...rulesFor('mailbox_too_busy', {
    // Gmail.
    '550 5.2.1 The user you are trying to contact is receiving mail at a rate that ...':
      'receiving mail at a rate | receiving mail too quickly | receiving email too quickly',
    '[data] 432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded':
      'p=receivingrate | recipient thread limit | ratelimit exceeded for mailbox',
    '450 4.2.1 The recipient has too many messages waiting just now':
      'recipient + too many messages | mailbox + too many mails | user + received too many',
  }),
  ...rulesFor('rate_limited', {
    // 163.com and 126.com: hourly limits on messages, connections and recipients.
    '[greeting] 421 HL:ICC 163 smtp9, too much open to your address':
      'hl:ifc | hl:icc | hl:itc | hl:irc | mi:dmc | mi:sfq | mi:cel | mi:ccl | mi:sti',
    '550 RP:TRC 163 smtp10, over for this hour': 'rp:drc | rp:qrc | rp:trc | rp:cel | rp:ccl',
    // QQ: limits for an address, a sender's name, and connections.
    '550 Ip frequency limited [Blocked IP 192.0.2.1]. http://service.mail.qq.test/help':
      'frequency limited | frequency limit',
  }),
  ...rulesFor('blocked_for_now', {
    // Yahoo; its codes must come before the rules for rate limits.
    '[mail] 421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred: unexpected volume':
      '[ts0 | [tss0 | [tss1 | [ipts0 | temporarily deferred',
    '[data] 421 4.7.0 Our system has detected an unusual rate of unsolicited mail from your IP':
      'unusual rate of unsolicited | p=unsolicitedratelimiterror',
    '[mail] 451 4.7.0 The server has been temporarily rate limited due to IP reputation.':
      'temporarily rate limited due to ip reputation | deferred due to ip reputation',
    '550 Your address 192.0.2.1 is temporarily blocked':
      'temporarily blocked | temporarily blacklisted | temporarily banned | temporary block',
    // Free.
    '[greeting] 550 Too many spams from your IP (192.0.2.1), please visit the postmaster page':
      'too many spams from your ip | too many errors from your ip | too many invalid recipients',
    // Comcast.
    '[greeting] 421 comcast 192.0.2.1 Throttled - try later. See ... RL000001':
      'rl000001 | rl000002 | rl000003 | rl000010',
  }),
  ...rulesFor('rate_limited', {
    '[mail] 451 4.7.1 The mail server [192.0.2.1] has been throttled':
      'rate limit | ratelimit | rate-limit | throttl | too fast | slow down | slowdown',
    // Orange and Laposte number their replies.
    '[greeting] 421 mwinf5c Trop de connexions, veuillez verifier votre configuration OFR004_104':
      'trop de connexions | ofr004_104 | ofr_104 | lpn004_104',
    '[greeting] 421 4.3.2 Too many connections from your host':
      'too many connections | too many concurrent | too many simultaneous | too many sessions',
    '[greeting] 421 Exceeded the maximum number of connections (S3115)':
      'connection limit | connections exceeded | maximum number of connections | max connections',
    '[data] 421 4.7.1 Messages to this server are deferred due to excessive volume':
      'too many messages | too many emails | too many mails | too much mail | excessive volume',
    '[mail] 421 Max message per connection reached, closing transmission channel':
      'max message per connection | messages per connection | messages in one session',
    '[data] 550 5.4.5 Daily user sending limit exceeded':
      'sending limit | hourly limit | daily limit | sending quota | exceeded the max emails per hour',
    '452 Too many recipients received this hour':
      'received this hour | this hour, try | per hour exceeded | sent too many | max defers',
    '[mail] 450 4.2.1 Peak SMTP relay limit exceeded for the customer':
      'rp-001 | rp-002 | rp-003 | limits for how many | peak smtp relay limit | sending rate | message rate',
  }),
  ...rulesFor('too_many_recipients', {
    '552 Too many recipients':
      'too many recipients | too many rcpt | maximum number of recipients | recipients limit',
    '451 4.3.0 Multiple destination domains per transaction is unsupported.':
      'multiple destination domains per transaction | domain policy size per transaction',
  }),
];

export const REPUTATION: readonly Rule[] = [
  ...rulesFor('dynamic_address', {
    // Comcast's ES codes, Spamhaus' PBL, Yahoo's DU: addresses of residential connections.
    '[mail] 550 We do not accept mail from hosts with dynamic IP or generic DNS PTR-records.':
      'dynamic ip | dynamic/residential | residential ip | dial-up | dialup | es000010',
    '554 5.7.1 Client host [192.0.2.1] blocked using pbl.spamhaus.org':
      'pbl.spamhaus | spamhaus pbl | [du] | dul.dnsbl | generic ptr | generic rdns | dynamic host',
  }),
  ...rulesFor('bad_link', {
    // A blocklist of links refuses the message, not the server.
    '[data] 550 REJECTED - Blacklisted URL in message. See http://lookup.uribl.com':
      'uribl | surbl | blacklisted url | url in this email | dbl.spamhaus + url | ivmuri',
  }),
  ...rulesFor('blocklisted', {
    '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org':
      'spamhaus | zen.dnsbl | sbl-xbl | /sbl/ | /query/bl',
    '550 Blocked - see https://www.spamcop.test/bl.shtml?192.0.2.1':
      'spamcop | sorbs | surriel | uceprotect | abusix | barracudacentral | mailspike',
    '550 5.7.1 Listed in ivmSIP, see https://www.invaluement.test/lookup':
      'invaluement | spamrats | nixspam | s5h.net | spfbl | hostkarma | senderbase | cloudmark',
    '550 5.1.1 Sorry, 192.0.2.1 is on our local blacklist':
      'blocklist | block list | blacklist | black list | black-list | denylist | deny list',
    '554 5.7.1 192.0.2.1 is in a DNSBL':
      'blocked list | block-list | ip on list | dnsbl | by rbl | in rbl | an rbl | rbl deny',
    // 163.com.
    '450 DT:RBL 163 smtp3, 192.0.2.1 is in one or more': 'dt:rbl | wm:bli | wm:blu | hl:rbl',
    // Proofpoint, also used by iCloud.
    '[greeting] 550 5.7.0 Blocked - see https://ipcheck.proofpoint.test/?ip=192.0.2.1':
      'ipcheck.proofpoint | pdr: | dynamic reputation',
    '550 5.7.1 Access denied, banned sending IP [192.0.2.1]':
      'banned sending ip | banned sender | ip blocked | ip is blocked | blocked ip | ip banned',
    '554 5.7.1 Client host [192.0.2.1] blocked using Barracuda Reputation':
      'blocked using | listed at | listed by | is listed on | found on one or more',
    // Comcast, then Yahoo.
    '[greeting] 554 resimta 192.0.2.1 found on the provider list. See ... BL000000':
      'bl000000 | bl000001 | bl000010 | bl000100 | bl000111 | bl001000 | [bl21] | [bl23]',
    // T-Online: the address has no reputation, or a bad one.
    '[greeting] 554 IP=192.0.2.1 - A problem occurred. (Ask your postmaster for help.) (BL)':
      'a problem occurred. + (bl)',
    // Cox and Spectrum.
    '550 5.1.0 <b@acme.test> sender rejected. AUP#CDRBL':
      'aup#cdrbl | aup#cxmj | aup#cxsnd | aup#bl | aup#blk | aup#i-1',
  }),
  ...rulesFor('rate_limited', {
    '550 5.1.0 <b@acme.test> sender rejected. AUP#In-1310':
      'aup#in-1 | aup#mxrt | aup#cxmxrt | aup#1310 | aup#o-',
  }),
  ...rulesFor('low_reputation', {
    // Outlook.com: codes for the network, the address and the domain.
    "[mail] 550 5.7.1 Messages from [192.0.2.1] weren't sent. Contact your provider (S3150).":
      '(s3140) | (s3150) | (s844) | (s3114) | (s775) | sc-001 | sc-002 | sc-003 | sc-004',
    '[mail] 550 The problem is that too many unwanted messages have come from 192.0.2.1':
      'too many unwanted messages | traffic not accepted from this ip | spam abuse detected',
    // Cisco.
    '[greeting] 554 Your access to this mail system has been rejected due to its record.':
      "mta's poor | your access to this mail system | access to submit messages",
    '[data] 550 5.7.1 Likely suspicious due to the very low reputation of the sending IP address':
      'reputation',
    '[data] 554 Message not accepted because of user complaints':
      'user complaints | complaint rate | complaints from users | spam rate | senderscore',
    // AOL no longer sends these codes, but other gateways still do.
    '[greeting] 554 RTR:BL http://postmaster.info.test/errors/554rtrbl.html':
      'rtr:bl | rtr:ge | rly:b | dyn:t1 | hvu:b',
    // 163.com: too much mail to unknown addresses, or forged domains.
    '[greeting] 421 HL:REP 163 smtp7, bad behaviour': 'hl:rep | hl:mep | hl:ihu',
    // Orange and Laposte.
    '[mail] 421 4.2.0 Service refuse. Veuillez essayer plus tard. Service refused, try later.':
      'service refuse. + service refused | ofr004_105 | ofr005_505 | lpn005_505',
    '550 Suspected spam sender. http://service.mail.qq.test/help':
      'suspected spam sender | spam sender | known spammer | spam source | source of spam',
    '[mail] 550 Mail from your IP range has been blocked':
      'your network + blocked | your ip + blocked | your ip + rejected | your server + blocked',
    '[mail] 550 Requested mail action not taken: IP is rejected':
      'ip is rejected | ip is hangup | invalid ip | black ip | host blocked | client host blocked',
    '550 5.7.1 Client host [192.0.2.1] blocked':
      'client host [ + blocked | ] has been blocked | ] is blocked | ] blocked',
    '[mail] 550 5.7.1 The IP address 192.0.2.1 has been blocked':
      'ip address + has been blocked | ip address is blocked | host has been blocked | server has been blocked',
  }),
];

/** A server that says only this blocks our server. Earlier rules match when the text says more. */
export const BARE_BLOCKS: readonly Rule[] = [
  ...rulesFor('refused_by_policy', {
    '[data] 550 5.7.1 Blocked by policy': {
      codes: [550, 552, 553, 554, 571],
      text: 'blocked + policy | blocked + policies | blocked by + rule | blocked by + administrator | blocked by us',
    },
    '[data] 550 5.7.1 Your mail has been blocked': {
      codes: [550, 552, 553, 554, 571],
      text: 'mail has been blocked | mail is blocked | mail was blocked | domain + blocked | sender + blocked',
    },
  }),
  ...rulesFor('low_reputation', {
    '550 5.7.1 blocked': {
      codes: [550, 552, 553, 554, 571],
      text: '^blocked | has been blocked | you are blocked | connection blocked | access blocked',
    },
  }),
];
