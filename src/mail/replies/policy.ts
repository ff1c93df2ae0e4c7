/** The receiver's own rules (rules.ts): who may write to whom, relaying, routing, order. */
import type { Rule } from './meanings.ts';

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
    // Google Workspace and Exchange: rules that the domain's administrator made.
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
    means: 'server_trouble',
    text: 'insufficient system | insufficient disk | insufficient resources | no space left | disk full | out of memory',
    example: '452 4.3.1 Insufficient system storage',
  },
  {
    means: 'server_trouble',
    text: 'queue file write | configuration error | internal error | internal server error | system problem | temporary system',
    example: '451 4.3.0 Error: queue file write error',
    phase: 'data',
  },
  {
    means: 'server_trouble',
    text: 'under maximum load | server busy | system busy | too busy | load too high | load average | resources temporarily',
    example: '421 4.4.5 Server busy, try again later.',
    phase: 'mail',
  },
  {
    means: 'server_trouble',
    text: 'shutting down | maintenance | out of service | service not active | service is not active | starting up',
    example: '421 4.3.2 The system is shutting down',
    phase: 'mail',
  },
  {
    means: 'routing_trouble',
    text: 'connection refused | connection timed out | connect failed | cannot connect | domain is not reachable | no route',
    example: '554 The mail could not be delivered because the domain is not reachable.',
    phase: 'data',
  },
  {
    means: 'routing_trouble',
    text: 'dns query failed | dns error | name server | name service error | dns lookup | wrong office 365 region',
    example: '550 5.4.312 DNS query failed',
    phase: 'data',
  },
];
