/** This server or the domain is not trusted (rules.ts): blocklists, scores, kinds of address. */
import type { Rule } from './meanings.ts';

export const REPUTATION: readonly Rule[] = [
  {
    // Comcast's ES codes, Spamhaus' PBL, Yahoo's DU: addresses of private connections.
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
    // A blocklist of links: the message is meant, not the server.
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
    // Proofpoint, also in front of iCloud.
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
    // T-Online, to addresses that it does not know as much as to bad ones.
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
    // AOL's old ones are still seen behind others' gateways.
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
];
