/**
 * Replies about the message and the receiver's policy (rules.ts): form (form.ts), malware, spam and size
 * of the message; permissions of senders, relaying, routing, order of commands.
 */
import { FORM } from './form.ts';
import type { Rule } from './match.ts';

export const CONTENT: readonly Rule[] = [
  ...FORM,
  {
    means: 'attachment_refused',
    text: 'attachment + not allowed | attachment type | banned attachment | banned file | banned: | banned ext',
    example: '550 5.7.1 Attachment with this extension is not allowed here',
    phase: 'data',
  },
  {
    means: 'attachment_refused',
    text: 'executable | file type | blocked attachment | attachment blocked | attachment is too long',
    example: '554 5.7.1 Messages with an executable inside are refused',
    phase: 'data',
  },
  {
    // Gmail.
    means: 'virus',
    text: 'potential security issue | p=blockedmessage',
    example: '552 5.7.0 Blocked because its content presents a potential security issue.',
    phase: 'data',
  },
  {
    means: 'virus',
    text: 'virus found | virus detected | contains a virus | contains virus | virus infect | virus:',
    example: '554 5.7.1 virus Eicar-Test-Signature found: virus detected',
    phase: 'data',
  },
  {
    means: 'virus',
    text: 'infected | malware | trojan | worm | ransom | mcspamsignature',
    example: '554 5.7.0 Reject, id=12345-01 - INFECTED: Eicar-Test-Signature',
    phase: 'data',
  },
  {
    // Includes Yahoo's PH01.
    means: 'virus',
    text: 'phish | [ph01] | dangerous | malicious | scam',
    example: '554 5.0.0 [PH01] Email not accepted',
    phase: 'data',
  },
  {
    // Gmail, for mail to a group as well.
    means: 'spam',
    text: 'unsolicited | due to spam classification | bulk mail | bulk email | ube, | junkmail | junk mail',
    example: '550 5.7.1 Our system has detected that this message is likely unsolicited mail.',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'as spam | is spam | spam message | spam detected | spam content | spam score | spam found',
    example: '554 5.7.1 Message rejected as spam by content filtering',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'like spam | considered spam | suspicion of spam | suspected spam | probability of spam',
    example: '554 5.7.1 Message rejected under suspicion of SPAM; https://ya.test/1',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'spam filter | antispam | anti-spam | spamassassin | rspamd | spam or virus | - spam | known spam',
    example: '552 message rejected by anti-spam engine.',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'spam reject | rejected spam | spam block | spam policy | spam threshold | spam denied | spammy',
    example: '550 Spam rejected',
    phase: 'data',
  },
  {
    // 163.com.
    means: 'spam',
    text: 'dt:spm | dt:sum | mi:spb',
    example: '554 DT:SPM 163 smtp11, please see the help page',
    phase: 'data',
  },
  {
    // Apple and other customers of Proofpoint.
    means: 'spam',
    text: '[hm0 | [cs01] | content filter | message filtered | filtered by',
    example: '554 5.7.1 [HM08] Message rejected',
    phase: 'data',
  },
  {
    // Orange and Laposte.
    means: 'spam',
    text: 'mail rejete | ofr_506 | ofr_999 | lpn007_506 | ofr006_506',
    example: '550 5.2.0 Mail rejete. Mail rejected. OFR_506 [506]',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'content rejected | content denied | suspicious content | nature of the content | offensive content | content was rejected',
    example: '550 Mail content denied. http://service.mail.qq.test/help',
    phase: 'data',
  },
  {
    // Barracuda: the list of what was wrong with each recipient, from a filter.
    means: 'spam',
    text: ':blocked) | message blocked | this message was blocked | message has been blocked',
    example: '550 permanent failure for one or more recipients (jo:blocked)',
    phase: 'data',
  },
  {
    means: 'bad_link',
    text: 'url blocked | blocking url | bad url | url in mess | suspicious url | spamrl',
    example: '554 5.7.1 This message contains a blocking URL',
    phase: 'data',
  },
  {
    means: 'too_big',
    text: 'message too big | message too large | message is too large | message is too big | too large for',
    example: '554 Message too large for this recipient',
    phase: 'data',
  },
  {
    means: 'too_big',
    text: 'size exceeds | message length exceeds | exceeds the maximum | maximum size | maximum email size',
    example: '552 message size exceeds maximum permitted',
    phase: 'mail',
  },
  {
    means: 'too_big',
    text: 'size limit for | message size limit | exceeded mailsize | larger than the current system limit',
    example: '552 The message size limit of this server was exceeded',
    phase: 'data',
  },
];

export const POLICY: readonly Rule[] = [
  {
    means: 'relay_denied',
    text: 'to relay | mail relay | no relay | denies relay | relay prohibited | relay rejected | relay check',
    example: '550 5.7.1 Unable to relay for jo',
  },
  {
    means: 'relay_denied',
    text: 'rcpthosts | not a local domain | local user only | non-local | not hosted here | not responsible for',
    example: "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
  },
  {
    means: 'no_ipv6',
    text: 'ipv6',
    example: '550 5.7.1 We take no mail over IPv6 from you',
    phase: 'mail',
  },
  {
    // Exchange and Google Groups.
    means: 'not_allowed_to_recipient',
    text: 'resolver.rst. | not authorized to send | permission to post | permission to send | not have permission',
    example: "550 5.7.1 You don't have permission to post messages to the group",
  },
  {
    means: 'not_allowed_to_recipient',
    text: 'only accepts mail from | only accept mail from | accepts messages only | restricted recipient | not in whitelist',
    example: '550 This list only accepts mail from its members',
  },
  {
    means: 'not_allowed_to_recipient',
    text: 'rejected by recipient | blocked by recipient | rejected by the recipient | user in blocked | by the recipient',
    example: '550 Mail is rejected by recipients. http://service.mail.qq.test/help',
  },
  {
    means: 'not_allowed_to_recipient',
    text: 'policy rejection on the target | envelope blocked | user rejected | recipient refuses | not accepting mail from',
    example: '550 5.7.1 Policy rejection on the target address',
  },
  {
    // Google Workspace and Exchange: rules of the domain's administrator.
    means: 'refused_by_policy',
    text: 'gcdp | violates + email policy | transport.rules | organization policy | content compliance',
    example: '550 5.7.1 TRANSPORT.RULES.RejectMessage; the message was rejected',
    phase: 'data',
  },
  {
    means: 'loop',
    text: 'too many hops | mail loop | loop detected | looping | hop count | received headers | mail is looping',
    example: '554 5.4.0 Error: too many hops',
    phase: 'data',
  },
  {
    means: 'gave_up_elsewhere',
    text: 'message expired | queue.expired | queue too long | delivery expired | undeliverable for too long',
    example: '550 QUEUE.Expired; message expired',
    phase: 'data',
  },
  {
    means: 'too_many_recipients',
    text: 'no valid recipients | no recipients',
    example: '554 5.5.1 Error: no valid recipients',
    phase: 'data_command',
  },
  {
    means: 'not_understood',
    text: 'out of sequence | bad sequence | sequence error | improper command pipelining | synchronization error',
    example: '503 5.5.0 <DATA>: Data command rejected: improper command pipelining',
    phase: 'data_command',
  },
  {
    means: 'not_understood',
    text: 'helo first | ehlo first | send helo | mail first | need mail | rcpt first | nested mail | need rcpt',
    example: '503 5.5.1 Error: nested MAIL command',
    phase: 'mail',
  },
  {
    means: 'not_understood',
    text: 'protocol violation | protocol error | command unrecognized | unrecognized command | not implemented',
    example: '550 Protocol violation',
    phase: 'mail',
  },
  {
    means: 'not_understood',
    text: 'too many errors | too many bad commands | too many unknown commands | unimplemented command',
    example: '421 4.7.0 Error: too many errors',
    phase: 'mail',
  },
  {
    means: 'no_smtputf8',
    text: 'smtputf8 | non-ascii | internationalized address | utf-8 address | needs eai',
    example: '550 SMTPUTF8 is needed, and not offered',
  },
  {
    means: 'server_problem',
    text: 'insufficient system | insufficient disk | insufficient resources | no space left | disk full | out of memory',
    example: '452 4.3.1 Insufficient system storage',
  },
  {
    means: 'server_problem',
    text: 'queue file write | configuration error | internal error | internal server error | system problem | temporary system',
    example: '451 4.3.0 Error: queue file write error',
    phase: 'data',
  },
  {
    means: 'server_problem',
    text: 'under maximum load | server busy | system busy | too busy | load too high | load average | resources temporarily',
    example: '421 4.4.5 Server busy, try again later.',
    phase: 'mail',
  },
  {
    means: 'server_problem',
    text: 'shutting down | maintenance | out of service | service not active | service is not active | starting up',
    example: '421 4.3.2 The system is shutting down',
    phase: 'mail',
  },
  {
    means: 'routing_problem',
    text: 'connection refused | connection timed out | connect failed | cannot connect | domain is not reachable | no route',
    example: '554 The mail could not be delivered because the domain is not reachable.',
    phase: 'data',
  },
  {
    means: 'routing_problem',
    text: 'dns query failed | dns error | name server | name service error | dns lookup | wrong office 365 region',
    example: '550 5.4.312 DNS query failed',
    phase: 'data',
  },
];
