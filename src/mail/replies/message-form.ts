/**
 * Replies about the form of the message: header, line ends, encodings (rules.ts). Each meaning names the fault.
 * These rules come before those about spam and mailboxes, because Gmail adds "to reduce the amount of spam" to such
 * replies, and other servers send them with a code about the mailbox.
 */
import { type Rule, rulesFor } from './rule-matching.ts';

const MIME: readonly Rule[] = rulesFor('mime_invalid', {
  '[data] 550 5.6.0 This message contains invalid MIME headers':
    'invalid mime | malformed mime | mime error | bad mime | broken mime | defective mime | mime boundary | mime structure | mime complexity | mime parts | mime-version | mime syntax | mime violation | mime compliant | mime-compliant | malformed multipart | multipart boundary',
  '[data] 554 5.6.3 Content conversion failed':
    'nested too deep | nesting level | too deeply nested | content-transfer-encoding | content transfer encoding | content conversion | unnecessary base64 | invalid base64 | improperly-formatted binary | unknown charset | unsupported charset | charset not supported',
});

const HEADER: readonly Rule[] = [
  ...rulesFor('header_not_ascii', {
    '[data] 550 Message headers can not have 8-bit non-ASCII characters':
      'header + 8-bit | header + 8bit | header + 8 bit | header + non-ascii | header + non ascii | header + not ascii | header + unencoded | header + not encoded',
    '[data] 550 5.7.1 The message contains a unicode character in a disallowed header.':
      'non-encoded 8-bit | improper use of 8-bit | unicode character in a disallowed header | header + unicode | header + utf-8 | characters in header | character in header | subject + non-ascii | subject + 8bit | subject + 8-bit | subject + 8 bit | characters in subject | subject + invalid char | raw utf',
  }),
  ...rulesFor('date_invalid', {
    // ACLs of hosting companies (Exim), and milters.
    '[data] 550 Date header far in the past/future.':
      'date header | date: header | date field | invalid date | bad date | malformed date | message date | date is too far | date too far | date far in | date: in the future | date in the header',
  }),
  ...rulesFor('header_too_long', {
    '[data] 552 5.6.0 Headers too large (32768 max)':
      'header size | headers size | header too large | headers too large | header too long | headers too long | header is too l | headers are too l | too long header | header + exceeds | header length | too many headers | too many header | header line too long',
  }),
  ...rulesFor('header_invalid', {
    '[data] 550 5.7.1 Messages with multiple addresses in From: header are not accepted.':
      'addresses in from | addresses in the from | several authors | encoded-word',
  }),
  ...rulesFor('header_repeated', {
    // Gmail.
    '[data] 550 5.7.1 This message is not RFC 5322 compliant: duplicate headers. To reduce the amount of spam sent to Gmail, this message has been blocked.':
      'duplicate header | duplicated header | duplicate + header | duplicate from | duplicate subject | duplicate message-id | duplicate date | repeated header | too many from header | too many to header | too many subject header',
    '[data] 550 5.7.1 This message is not RFC 5322 compliant. There are multiple Subjects.':
      'multiple + header | multiple subject | multiple from | multiple sender | multiple message-id | multiple date | more than one + header | more than one from | more than one subject | more than one message-id | two from headers | two subject headers | should have one or no',
  }),
  ...rulesFor('header_missing', {
    '[data] 550 5.7.1 Messages missing a valid Message-ID: header are not accepted.':
      'missing + header | header + missing | missing a message-id | missing a from | missing a subject | empty subject | subject is empty | blank subject | without subject | without a subject | no from header | no message-id | no subject header | no to header | missing message-id | message-id missing | missing from | missing subject | missing required | no from: header | no to: header | has no from | has no subject',
    '[data] 550 5.7.1 Messages without a valid address in the From: are not accepted':
      'valid address in the from | without a message-id | without message-id | header is required | headers are required | required header | header required | lacks a + header | without a + header | no header/body separator | no valid sender in any header | no sender in any header',
  }),
  ...rulesFor('header_invalid', {
    // Exim: `verify = header_syntax`.
    '[data] 550-Message headers fail syntax check\n550 unqualified address in "From:" header':
      'headers fail syntax | header syntax | header + syntax | invalid header | bad header | bad-header | malformed header | illegal header | header error | header + malformed | header + invalid | header + illegal | header + not valid',
    '[data] 550 5.7.1 RFC5322 requirement error: not exactly one Date':
      'from header | from: header | \'from\' header | "from" header | requirement error | invalid from: | malformed from | invalid message-id | bad message-id | malformed message-id | message-id is invalid | message-id is malformed | header violation | failing address in | missing final',
  }),
];

const BODY: readonly Rule[] = [
  ...rulesFor('bare_line_end', {
    '[data] 552 5.2.0 Message contains bare CR and is violating 822.bis section 2.3':
      'bare cr | bare lf | bare <lf> | bare <cr> | bare linefeed | bare line feed | bare newline | bare carriage | bare-lf | bare-cr | stray newline | stray cr | stray lf',
    // qmail: the URL of a page.
    '[data] 451 See http://pobox.com/~djb/docs/smtplf.html.':
      'smtplf | 822.bis | 822bis | barelinefeeds | lone cr | lone lf | lone linefeed | isolated cr | isolated lf | cr without lf | lf without cr | <cr> without | <lf> without | invalid line end | line ending | line terminator | end with crlf | invalidcharacters',
  }),
  ...rulesFor('line_too_long', {
    '[data] 550 maximum allowed line length is 998 octets, got 1234':
      'line limit exceeded | line too long | line is too long | lines longer | line longer | line length | lines too long | lines are too long | maximum line | line exceeds | lines exceed | long lines | too long line | overlong line',
  }),
  ...rulesFor('octets_refused', {
    // Cyrus.
    '[data] 554 5.6.0 Message contains NUL characters':
      'nul character | null character | nul byte | null byte | nul octet | null octet | contains nul | control character | containsnul',
    '[data] 554 5.6.3 Body type 8BITMIME not supported by the destination':
      'message contains non-ascii | message contains 8-bit | message contains 8bit | body + non-ascii | content + non-ascii | 8bitmime | 8-bit data | 8bit data | 8 bit data | 8-bit character | 8bit character | 8 bit character | 7-bit | 7bit',
  }),
  ...rulesFor('bad_format', {
    '[data] 550 5.7.1 [192.0.2.1] Our system has detected that this message is not RFC 2822 compliant.':
      'rfc 5322 | rfc 2822 | rfc5322 | rfc2822 | rfc822 + complian | rfc822 format | rfc822 syntax | rfc 822 | p=rfcmessagenoncompliant | rfc compliant | rfc-compliant | compliant with rfc | rfc compliance | violates rfc | rfc violation',
    '[data] 554 5.6.0 Mail message is malformed. Not accepted.':
      'malformed message | malformed mail | message is malformed | message malformed | message format | corrupt | cannot parse | could not parse | empty body | body is empty | message is empty | empty message | has no body | parse error | unparsable | unparseable',
  }),
];

export const FORM: readonly Rule[] = [...MIME, ...HEADER, ...BODY];
