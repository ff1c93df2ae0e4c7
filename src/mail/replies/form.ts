/**
 * Replies about the form of the message (rules.ts): its header, line ends, encodings. Each meaning names
 * what is wrong. Matched before rules about spam and mailboxes, because Gmail adds "to reduce the amount of
 * spam" to such a reply, and others send it with a code about the mailbox.
 */
import type { Rule } from './match.ts';

const MIME: readonly Rule[] = [
  {
    means: 'mime_invalid',
    text: 'invalid mime | malformed mime | mime error | bad mime | broken mime | defective mime | mime boundary | mime structure | mime complexity | mime parts | mime-version | mime syntax | mime violation | mime compliant | mime-compliant | malformed multipart | multipart boundary',
    example: '550 5.6.0 This message contains invalid MIME headers',
    phase: 'data',
  },
  {
    means: 'mime_invalid',
    text: 'nested too deep | nesting level | too deeply nested | content-transfer-encoding | content transfer encoding | content conversion | unnecessary base64 | invalid base64 | improperly-formatted binary | unknown charset | unsupported charset | charset not supported',
    example: '554 5.6.3 Content conversion failed',
    phase: 'data',
  },
];

const HEADER: readonly Rule[] = [
  {
    means: 'header_not_ascii',
    text: 'header + 8-bit | header + 8bit | header + 8 bit | header + non-ascii | header + non ascii | header + not ascii | header + unencoded | header + not encoded',
    example: '550 Message headers can not have 8-bit non-ASCII characters',
    phase: 'data',
  },
  {
    means: 'header_not_ascii',
    text: 'non-encoded 8-bit | improper use of 8-bit | unicode character in a disallowed header | header + unicode | header + utf-8 | characters in header | character in header | subject + non-ascii | subject + 8bit | subject + 8-bit | subject + 8 bit | characters in subject | subject + invalid char | raw utf',
    example: '550 5.7.1 The message contains a unicode character in a disallowed header.',
    phase: 'data',
  },
  {
    // Exim's ACLs of hosting companies, and milters.
    means: 'date_invalid',
    text: 'date header | date: header | date field | invalid date | bad date | malformed date | message date | date is too far | date too far | date far in | date: in the future | date in the header',
    example: '550 Date header far in the past/future.',
    phase: 'data',
  },
  {
    means: 'header_too_long',
    text: 'header size | headers size | header too large | headers too large | header too long | headers too long | header is too l | headers are too l | too long header | header + exceeds | header length | too many headers | too many header | header line too long',
    example: '552 5.6.0 Headers too large (32768 max)',
    phase: 'data',
  },
  {
    means: 'header_invalid',
    text: 'addresses in from | addresses in the from | several authors | encoded-word',
    example: '550 5.7.1 Messages with multiple addresses in From: header are not accepted.',
    phase: 'data',
  },
  {
    // Gmail.
    means: 'header_repeated',
    text: 'duplicate header | duplicated header | duplicate + header | duplicate from | duplicate subject | duplicate message-id | duplicate date | repeated header | too many from header | too many to header | too many subject header',
    example:
      '550 5.7.1 This message is not RFC 5322 compliant: duplicate headers. To reduce the amount of spam sent to Gmail, this message has been blocked.',
    phase: 'data',
  },
  {
    means: 'header_repeated',
    text: 'multiple + header | multiple subject | multiple from | multiple sender | multiple message-id | multiple date | more than one + header | more than one from | more than one subject | more than one message-id | two from headers | two subject headers | should have one or no',
    example: '550 5.7.1 This message is not RFC 5322 compliant. There are multiple Subjects.',
    phase: 'data',
  },
  {
    means: 'header_missing',
    text: 'missing + header | header + missing | missing a message-id | missing a from | missing a subject | empty subject | subject is empty | blank subject | without subject | without a subject | no from header | no message-id | no subject header | no to header | missing message-id | message-id missing | missing from | missing subject | missing required | no from: header | no to: header | has no from | has no subject',
    example: '550 5.7.1 Messages missing a valid Message-ID: header are not accepted.',
    phase: 'data',
  },
  {
    means: 'header_missing',
    text: 'valid address in the from | without a message-id | without message-id | header is required | headers are required | required header | header required | lacks a + header | without a + header | no header/body separator | no valid sender in any header | no sender in any header',
    example: '550 5.7.1 Messages without a valid address in the From: are not accepted',
    phase: 'data',
  },
  {
    // Exim: `verify = header_syntax`.
    means: 'header_invalid',
    text: 'headers fail syntax | header syntax | header + syntax | invalid header | bad header | bad-header | malformed header | illegal header | header error | header + malformed | header + invalid | header + illegal | header + not valid',
    example: '550-Message headers fail syntax check\n550 unqualified address in "From:" header',
    phase: 'data',
  },
  {
    means: 'header_invalid',
    text: 'from header | from: header | \'from\' header | "from" header | requirement error | invalid from: | malformed from | invalid message-id | bad message-id | malformed message-id | message-id is invalid | message-id is malformed | header violation | failing address in | missing final',
    example: '550 5.7.1 RFC5322 requirement error: not exactly one Date',
    phase: 'data',
  },
];

const BODY: readonly Rule[] = [
  {
    means: 'bare_line_end',
    text: 'bare cr | bare lf | bare <lf> | bare <cr> | bare linefeed | bare line feed | bare newline | bare carriage | bare-lf | bare-cr | stray newline | stray cr | stray lf',
    example: '552 5.2.0 Message contains bare CR and is violating 822.bis section 2.3',
    phase: 'data',
  },
  {
    // qmail: the address of a page.
    means: 'bare_line_end',
    text: 'smtplf | 822.bis | 822bis | barelinefeeds | lone cr | lone lf | lone linefeed | isolated cr | isolated lf | cr without lf | lf without cr | <cr> without | <lf> without | invalid line end | line ending | line terminator | end with crlf | invalidcharacters',
    example: '451 See http://pobox.com/~djb/docs/smtplf.html.',
    phase: 'data',
  },
  {
    means: 'line_too_long',
    text: 'line limit exceeded | line too long | line is too long | lines longer | line longer | line length | lines too long | lines are too long | maximum line | line exceeds | lines exceed | long lines | too long line | overlong line',
    example: '550 maximum allowed line length is 998 octets, got 1234',
    phase: 'data',
  },
  {
    // Cyrus.
    means: 'octets_refused',
    text: 'nul character | null character | nul byte | null byte | nul octet | null octet | contains nul | control character | containsnul',
    example: '554 5.6.0 Message contains NUL characters',
    phase: 'data',
  },
  {
    means: 'octets_refused',
    text: 'message contains non-ascii | message contains 8-bit | message contains 8bit | body + non-ascii | content + non-ascii | 8bitmime | 8-bit data | 8bit data | 8 bit data | 8-bit character | 8bit character | 8 bit character | 7-bit | 7bit',
    example: '554 5.6.3 Body type 8BITMIME not supported by the destination',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'rfc 5322 | rfc 2822 | rfc5322 | rfc2822 | rfc822 + complian | rfc822 format | rfc822 syntax | rfc 822 | p=rfcmessagenoncompliant | rfc compliant | rfc-compliant | compliant with rfc | rfc compliance | violates rfc | rfc violation',
    example:
      '550 5.7.1 [192.0.2.1] Our system has detected that this message is not RFC 2822 compliant.',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'malformed message | malformed mail | message is malformed | message malformed | message format | corrupt | cannot parse | could not parse | empty body | body is empty | message is empty | empty message | has no body | parse error | unparsable | unparseable',
    example: '554 5.6.0 Mail message is malformed. Not accepted.',
    phase: 'data',
  },
];

export const FORM: readonly Rule[] = [...MIME, ...HEADER, ...BODY];
