/** Replies about the message and the receiver's policy (rules.ts): content, permissions, relaying, routing. */
import { FORM } from './message-form.ts';
import { type Rule, rulesFor } from './rule-matching.ts';

export const CONTENT: readonly Rule[] = [
  ...FORM,
  ...rulesFor('attachment_refused', {
    '[data] 550 5.7.1 Attachment with this extension is not allowed here':
      'attachment + not allowed | attachment type | banned attachment | banned file | banned: | banned ext',
    '[data] 554 5.7.1 Messages with an executable inside are refused':
      'executable | file type | blocked attachment | attachment blocked | attachment is too long',
  }),
  ...rulesFor('virus', {
    // Gmail.
    '[data] 552 5.7.0 Blocked because its content presents a potential security issue.':
      'potential security issue | p=blockedmessage',
    '[data] 554 5.7.1 virus Eicar-Test-Signature found: virus detected':
      'virus found | virus detected | contains a virus | contains virus | virus infect | virus:',
    '[data] 554 5.7.0 Reject, id=12345-01 - INFECTED: Eicar-Test-Signature':
      'infected | malware | trojan | worm | ransom | mcspamsignature',
    // Yahoo: PH01.
    '[data] 554 5.0.0 [PH01] Email not accepted': 'phish | [ph01] | dangerous | malicious | scam',
  }),
  ...rulesFor('spam', {
    // Gmail, also for mail to a group.
    '[data] 550 5.7.1 Our system has detected that this message is likely unsolicited mail.':
      'unsolicited | due to spam classification | bulk mail | bulk email | ube, | junkmail | junk mail',
    '[data] 554 5.7.1 Message rejected as spam by content filtering':
      'as spam | is spam | spam message | spam detected | spam content | spam score | spam found',
    '[data] 554 5.7.1 Message rejected under suspicion of SPAM; https://ya.test/1':
      'like spam | considered spam | suspicion of spam | suspected spam | probability of spam',
    '[data] 552 message rejected by anti-spam engine.':
      'spam filter | antispam | anti-spam | spamassassin | rspamd | spam or virus | - spam | known spam',
    '[data] 550 Spam rejected':
      'spam reject | rejected spam | spam block | spam policy | spam threshold | spam denied | spammy',
    // 163.com.
    '[data] 554 DT:SPM 163 smtp11, please see the help page': 'dt:spm | dt:sum | mi:spb',
    // Apple and other customers of Proofpoint.
    '[data] 554 5.7.1 [HM08] Message rejected':
      '[hm0 | [cs01] | content filter | message filtered | filtered by',
    // Orange and Laposte.
    '[data] 550 5.2.0 Mail rejete. Mail rejected. OFR_506 [506]':
      'mail rejete | ofr_506 | ofr_999 | lpn007_506 | ofr006_506',
    '[data] 550 Mail content denied. http://service.mail.qq.test/help':
      'content rejected | content denied | suspicious content | nature of the content | offensive content | content was rejected',
    // Barracuda lists what its filter found for each recipient.
    '[data] 550 permanent failure for one or more recipients (jo:blocked)':
      ':blocked) | message blocked | this message was blocked | message has been blocked',
  }),
  ...rulesFor('bad_link', {
    '[data] 554 5.7.1 This message contains a blocking URL':
      'url blocked | blocking url | bad url | url in mess | suspicious url | spamrl',
  }),
  ...rulesFor('too_big', {
    '[data] 554 Message too large for this recipient':
      'message too big | message too large | message is too large | message is too big | too large for',
    '[mail] 552 message size exceeds maximum permitted':
      'size exceeds | message length exceeds | exceeds the maximum | maximum size | maximum email size',
    '[data] 552 The message size limit of this server was exceeded':
      'size limit for | message size limit | exceeded mailsize | larger than the current system limit',
  }),
];

export const POLICY: readonly Rule[] = [
  ...rulesFor('relay_denied', {
    '550 5.7.1 Unable to relay for jo':
      'to relay | mail relay | no relay | denies relay | relay prohibited | relay rejected | relay check',
    "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)":
      'rcpthosts | not a local domain | local user only | non-local | not hosted here | not responsible for',
  }),
  ...rulesFor('no_ipv6', {
    '[mail] 550 5.7.1 We take no mail over IPv6 from you': 'ipv6',
  }),
  ...rulesFor('not_allowed_to_recipient', {
    // Exchange and Google Groups.
    "550 5.7.1 You don't have permission to post messages to the group":
      'resolver.rst. | not authorized to send | permission to post | permission to send | not have permission',
    '550 This list only accepts mail from its members':
      'only accepts mail from | only accept mail from | accepts messages only | restricted recipient | not in whitelist',
    '550 Mail is rejected by recipients. http://service.mail.qq.test/help':
      'rejected by recipient | blocked by recipient | rejected by the recipient | user in blocked | by the recipient',
    '550 5.7.1 Policy rejection on the target address':
      'policy rejection on the target | envelope blocked | user rejected | recipient refuses | not accepting mail from',
  }),
  ...rulesFor('refused_by_policy', {
    // Google Workspace and Exchange: rules that the domain's administrator made.
    '[data] 550 5.7.1 TRANSPORT.RULES.RejectMessage; the message was rejected':
      'gcdp | violates + email policy | transport.rules | organization policy | content compliance',
  }),
  ...rulesFor('loop', {
    '[data] 554 5.4.0 Error: too many hops':
      'too many hops | mail loop | loop detected | looping | hop count | received headers | mail is looping',
  }),
  ...rulesFor('gave_up_elsewhere', {
    '[data] 550 QUEUE.Expired; message expired':
      'message expired | queue.expired | queue too long | delivery expired | undeliverable for too long',
  }),
  ...rulesFor('too_many_recipients', {
    '[data_command] 554 5.5.1 Error: no valid recipients': 'no valid recipients | no recipients',
  }),
  ...rulesFor('not_understood', {
    '[data_command] 503 5.5.0 <DATA>: Data command rejected: improper command pipelining':
      'out of sequence | bad sequence | sequence error | improper command pipelining | synchronization error',
    '[mail] 503 5.5.1 Error: nested MAIL command':
      'helo first | ehlo first | send helo | mail first | need mail | rcpt first | nested mail | need rcpt',
    '[mail] 550 Protocol violation':
      'protocol violation | protocol error | command unrecognized | unrecognized command | not implemented',
    '[mail] 421 4.7.0 Error: too many errors':
      'too many errors | too many bad commands | too many unknown commands | unimplemented command',
  }),
  ...rulesFor('no_smtputf8', {
    '550 SMTPUTF8 is needed, and not offered':
      'smtputf8 | non-ascii | internationalized address | utf-8 address | needs eai',
  }),
  ...rulesFor('server_problem', {
    '452 4.3.1 Insufficient system storage':
      'insufficient system | insufficient disk | insufficient resources | no space left | disk full | out of memory',
    '[data] 451 4.3.0 Error: queue file write error':
      'queue file write | configuration error | internal error | internal server error | system problem | temporary system',
    '[mail] 421 4.4.5 Server busy, try again later.':
      'under maximum load | server busy | system busy | too busy | load too high | load average | resources temporarily',
    '[mail] 421 4.3.2 The system is shutting down':
      'shutting down | maintenance | out of service | service not active | service is not active | starting up',
  }),
  ...rulesFor('routing_problem', {
    '[data] 554 The mail could not be delivered because the domain is not reachable.':
      'connection refused | connection timed out | connect failed | cannot connect | domain is not reachable | no route',
    '[data] 550 5.4.312 DNS query failed':
      'dns query failed | dns error | name server | name service error | dns lookup | wrong office 365 region',
  }),
];
