/**
 * Rules (rule-matching.ts) that map the reply of a mail server to its meaning (meanings.ts). The first match counts.
 *
 *     VERIFICATION    verification.ts    callouts to our return path, which quote the replies to them
 *     CODES           here               enhanced codes with a single meaning
 *     RATE            reputation.ts      greylists, limits, temporary blocks
 *     REPUTATION      reputation.ts      blocklists, mistrust of this server or the domain
 *     AUTHENTICATION  authentication.ts  PTR, HELO, SPF, DKIM, DMARC, the sender, TLS, log-in
 *     CONTENT         content-policy.ts  form (message-form.ts), malware, spam and size of the message
 *     MAILBOX         mailbox.ts         full, closed, moved, unknown: by enhanced code, then by text
 *     POLICY          content-policy.ts  permissions, relaying, order, overload, routing
 *     BARE_BLOCKS     reputation.ts      blocks that say nothing else
 *     LAST_RESORTS    here               subjects of enhanced codes, vague texts, bare codes
 *
 * The order prevents wrong suppressions. Servers report reputation, rate, authentication and content problems with
 * codes for the mailbox ("550 5.1.1 blocked using ..."), which must not suppress a valid address. So the texts of
 * those rules come before all rules about the mailbox.
 *
 * To change the meaning of a reply, run `letterhaus explain reply "554 5.7.1 ..."`. It shows the example of the
 * matching rule. Then add a phrase to a rule of the right meaning, or add a rule with the reply as its example: a
 * text to the list of its subject, an enhanced code to CODES or, about the mailbox, to mailbox.ts. rules.test.ts
 * checks every example and phrase, and names an earlier rule that matches.
 */
import { AUTHENTICATION } from './authentication.ts';
import { CONTENT, POLICY } from './content-policy.ts';
import { MAILBOX } from './mailbox.ts';
import { type Rule, rulesFor } from './rule-matching.ts';
import { BARE_BLOCKS, RATE, REPUTATION } from './reputation.ts';
import { VERIFICATION } from './verification.ts';

/**
 * Enhanced codes with a single meaning: those of RFC 3463, 5248, 7372, 7505 and 8689, and of Google and Microsoft.
 * None concerns the mailbox. Where two meanings share a code, the text decides first.
 */
const CODES: readonly Rule[] = [
  ...rulesFor('no_reverse_dns', {
    // Google.
    '[data] 421 4.7.23 The sending IP address does not match the IP address of its PTR name': {
      enhanced: ['7.23'],
      text: 'ptr | hostname',
    },
    '550 5.7.25 The sending IP does not match the name that it resolves to': { enhanced: ['7.25'] },
  }),
  ...rulesFor('tls_required', {
    // RFC 8689.
    '[mail] 550 5.7.30 REQUIRETLS support required': { enhanced: ['7.30'], text: 'requiretls' },
  }),
  ...rulesFor('sender_domain_unknown', {
    // RFC 7505: our own domain has a null MX.
    '[mail] 550 5.7.27 Sender address has null MX': {
      enhanced: ['7.27'],
      text: 'null mx | no mail | nullmx',
    },
  }),
  ...rulesFor('not_authenticated', {
    '[data] 550 5.7.26 This mail has been blocked because the sender is unauthenticated.': {
      enhanced: ['7.20', '7.21', '7.22', '7.23', '7.24', '7.26', '7.27'],
    },
    '[data] 550 5.7.30 This mail has been blocked because DKIM does not pass.': {
      enhanced: ['7.30', '7.31', '7.32', '7.40'],
    },
  }),
  ...rulesFor('rate_limited', {
    '[data] 421 4.7.28 An unusual rate of mail; mail is temporarily under a rate limit': {
      enhanced: ['7.28'],
      text: 'rate + rate limit | unusual rate + temporarily',
    },
  }),
  ...rulesFor('low_reputation', {
    '[data] 550 5.7.28 There is an unusual amount of mail from your address': {
      enhanced: ['7.28'],
    },
  }),
  ...rulesFor('not_authenticated', {
    // RFC 8617: a forwarded message. Google uses this number for TLS.
    '[data] 550 5.7.29 ARC validation failure': {
      enhanced: ['7.29'],
      text: 'arc validation | arc seal | arc chain',
    },
  }),
  ...rulesFor('tls_required', {
    '[mail] 421 4.7.29 The connection was not encrypted': { enhanced: ['7.10', '7.29'] },
  }),
  ...rulesFor('login_refused', {
    // RFC 4954. Microsoft uses two of these numbers with other reply codes for something else.
    '[auth] 535 5.7.8 Username and Password not accepted': {
      enhanced: ['7.8', '7.9', '7.11', '7.12'],
      codes: [432, 454, 500, 530, 534, 535, 538],
    },
  }),
  ...rulesFor('not_authenticated', {
    // Microsoft.
    '[data] 550 5.7.515 Access denied, sending domain does not meet the required level.': {
      enhanced: ['7.509', '7.515'],
    },
  }),
  ...rulesFor('blocklisted', {
    '550 5.7.606 Access denied, banned sending IP [192.0.2.1]': {
      enhanced: ['7.511', '7.606-649'],
    },
  }),
  ...rulesFor('low_reputation', {
    '550 5.7.708 Service unavailable. Access denied, traffic not accepted from this IP': {
      enhanced: ['7.501', '7.502', '7.503', '7.705', '7.708', '7.750'],
    },
  }),
  ...rulesFor('not_allowed_to_recipient', {
    '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; not a member': {
      enhanced: [
        '7.504',
        '7.505',
        '7.507',
        '7.513',
        '7.703',
        '7.12',
        '7.124',
        '7.129',
        '7.133-136',
      ],
    },
  }),
  ...rulesFor('bad_helo', {
    '[mail] 550 5.7.506 Access Denied, Bad HELO': { enhanced: ['7.506'] },
  }),
  ...rulesFor('rate_limited', {
    '[mail] 451 4.7.650 The mail server [192.0.2.1] has been slowed down (S775)': {
      enhanced: ['7.508', '7.650-652', '7.232', '7.233', '7.90', '1.90'],
    },
  }),
  ...rulesFor('no_ipv6', {
    '550 5.7.510 Access denied, acme.test does not accept email over IPv6': { enhanced: ['7.510'] },
  }),
  ...rulesFor('header_invalid', {
    '[data] 550 5.7.512 Access denied, message must be RFC 5322 section 3.6.2 compliant': {
      enhanced: ['7.512', '1.20'],
    },
  }),
  ...rulesFor('rate_limited', {
    // Too much mail from the servers of one network (AS...), which is temporary.
    '[mail] 451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (AS77713180)': {
      enhanced: ['7.500', '7.514', '7.516-599', '7.653-699', '7.850-859'],
      text: 'busy | try again | temporarily | limited',
    },
  }),
  ...rulesFor('mailbox_too_busy', {
    '550 5.2.122 The recipient has exceeded their limit for the number of messages an hour': {
      enhanced: ['2.121', '2.122'],
    },
  }),
  ...rulesFor('no_tls', {
    "[data] 450 4.7.322 certificate-expired: the destination's certificate has expired": {
      enhanced: ['7.321-325'],
    },
  }),
  ...rulesFor('relay_denied', {
    '550 5.7.64 TenantAttribution; Relay Access Denied [ValidationStatus of Unknown]': {
      enhanced: ['7.64', '7.367'],
    },
  }),
  ...rulesFor('login_refused', {
    '[mail] 530 5.7.57 Client not authenticated to send mail.': { enhanced: ['7.57'] },
  }),
  ...rulesFor('sender_refused', {
    // Microsoft and Zoho: an account that they closed.
    '[mail] 550 5.1.8 Access denied, bad outbound sender': {
      enhanced: ['1.8'],
      text: 'outbound | outgoing',
    },
  }),
  ...rulesFor('sender_domain_unknown', {
    '[mail] 553 5.1.8 <b@acme.test>... Domain of the sender does not exist': { enhanced: ['1.8'] },
  }),
  ...rulesFor('sender_refused', {
    '[mail] 553 5.1.7 The sender address has bad syntax': { enhanced: ['1.7'] },
  }),
  ...rulesFor('header_too_long', {
    // Gmail.
    "[data] 552 5.3.4 The size of the X-Data header value exceeds Google's limit": {
      enhanced: ['2.3', '3.4'],
      text: 'header',
    },
  }),
  ...rulesFor('too_big', {
    '[mail] 552 5.3.4 Message size exceeds fixed limit': { enhanced: ['2.3', '3.4'] },
  }),
  ...rulesFor('too_many_recipients', {
    '452 4.5.3 Your message has more recipients than we take': { enhanced: ['5.3'] },
  }),
  ...rulesFor('header_not_ascii', {
    // Servers also use codes that RFC 6531 defined for addresses, or codes about the mailbox.
    '[data] 550 5.1.1 Message headers can not have 8-bit non-ASCII characters': {
      enhanced: ['1.3', '1.1', '1.6', '6.7', '6.8', '6.10'],
      text: 'header + non-ascii | header + 8-bit | header + 8bit | subject + non-ascii | subject + 8-bit | subject + 8bit | raw utf',
    },
    // Sun's and Oracle's servers, with a code that RFC 6531 defined later.
    '[data] 550 5.6.9 improper use of 8-bit data in message header': {
      enhanced: ['6.7', '6.9'],
      text: '8-bit | 8bit',
    },
  }),
  ...rulesFor('message_needs_smtputf8', {
    // RFC 6531: the header contains addresses or text in UTF-8.
    '[data] 550 5.6.9 UTF-8 header message cannot be transferred': { enhanced: ['6.9'] },
  }),
  ...rulesFor('octets_refused', {
    '[data] 550 5.1.1 Message contains 8-bit data': {
      enhanced: ['1.3', '1.1', '1.6'],
      text: 'message contains non-ascii | message contains 8-bit | message contains 8bit | 8-bit data | 8bit data | 8bitmime',
    },
  }),
  ...rulesFor('no_smtputf8', {
    // Some servers send this with the code of a bad address, which would suppress it.
    '501 5.1.3 The address has non-ASCII characters': {
      enhanced: ['1.3', '1.1', '1.6'],
      text: 'smtputf8 | non-ascii | utf-8 | utf8 | 8-bit | 8bit | internationalized | internationalised',
    },
    '553 5.6.7 Non-ASCII addresses are not permitted for that recipient': {
      enhanced: ['6.7', '6.8', '6.10'],
    },
  }),
  ...rulesFor('loop', {
    '[data] 554 5.4.14 Hop count exceeded - possible mail loop ATTR34': {
      enhanced: ['4.6', '4.11', '4.14'],
    },
  }),
  ...rulesFor('gave_up_elsewhere', {
    '[data] 554 5.4.7 Message expired: unable to deliver in 840 minutes': {
      enhanced: ['4.7', '4.300'],
    },
  }),
];

/** Rules for replies whose text matches nothing: subjects of enhanced codes, then bare codes. */
const LAST_RESORTS: readonly Rule[] = [
  ...rulesFor('login_refused', {
    '[mail] 530 5.7.0 Log in first': { codes: [530] },
    '[auth] 534 5.7.14 Please log in with your web browser': {
      codes: [432, 454, 500, 534, 535, 538],
      enhanced: ['7.0', '7.3', '7.14'],
    },
  }),
  ...rulesFor('greylisted', {
    '451 4.7.1 Please try again later': {
      codes: [450, 451],
      enhanced: ['7.*'],
      text: 'try again | try later | retry | come back | temporarily | deferred',
    },
  }),
  ...rulesFor('refused_by_policy', {
    // T-Online and others use 5.7.x for any refused mail.
    '[data] 550 5.7.1 Message rejected due to local policy': { enhanced: ['7.*'] },
  }),
  ...rulesFor('mailbox_problem', {
    '450 4.2.0 Mailbox not ready': { enhanced: ['1.*', '2.*'] },
  }),
  ...rulesFor('server_problem', {
    '451 4.3.0 Mail server temporarily rejected message': { enhanced: ['3.*'] },
  }),
  ...rulesFor('routing_problem', {
    '[data] 451 4.4.2 Timeout - closing connection': { enhanced: ['4.*'] },
  }),
  ...rulesFor('bad_format', {
    '[data] 554 5.6.0 Unreadable message': { enhanced: ['6.*'] },
  }),
  ...rulesFor('refused_by_policy', {
    '[mail] 550 Access denied...7d39d5299584f4be':
      'policy | policies | not allowed | access denied | not accepted | is blocked | was blocked | banned | prohibited',
    '[mail] 550 Administrative hindrance: you are not permitted':
      'administrative prohibition | not permitted | not authorized | restricted | no permission',
  }),
  ...rulesFor('server_problem', {
    '451 Temporary local error, please try again':
      'not available | unavailable | overloaded | local error | timed out | local problem | temporary failure',
  }),
  ...rulesFor('not_understood', {
    '[mail] 501 5.5.4 Unsupported option: SIZE': { enhanced: ['5.1', '5.2', '5.4', '5.5', '5.6'] },
    '[mail] 555 MAIL parameters not recognized': { codes: [500, 501, 502, 503, 504, 555] },
  }),
];

export const RULES: readonly Rule[] = [
  ...VERIFICATION,
  ...CODES,
  ...RATE,
  ...REPUTATION,
  ...AUTHENTICATION,
  ...CONTENT,
  ...MAILBOX,
  ...POLICY,
  ...BARE_BLOCKS,
  ...LAST_RESORTS,
];
