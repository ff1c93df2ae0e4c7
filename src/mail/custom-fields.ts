/**
 * Custom header fields: which ones a client may set, and how they are written.
 *
 * Programs parse the value of a structured field (RFC 5322 §2.2.2), so an encoded word would be a wrong value. Such
 * a field is written by its grammar (mail/mime/structured-fields.ts), or refused with the reason. Other fields are
 * text: characters outside of ASCII become encoded words (RFC 2047).
 */
import {
  CONTROL,
  headerField,
  type HeaderField,
  LINE_MAX,
  textField,
  WORD_MAX,
  wordsOf,
} from './mime/header.ts';
import {
  addresses,
  ascii,
  dateTime,
  type Grammar,
  listId,
  messageIds,
  oneOf,
  phrases,
  token,
  urls,
} from './mime/structured-fields.ts';

/** Fields that Letterhaus writes, and fields in which mail servers record their work on the message. */
const NOT_CUSTOM = new Set([
  'from',
  'sender',
  'to',
  'cc',
  'bcc',
  'reply-to',
  'subject',
  'date',
  'message-id',
  'return-path',
  'received',
  'received-spf',
  'authentication-results',
  'delivered-to',
  'domainkey-signature',
]);
const NOT_CUSTOM_PREFIX = /^(?:dkim|arc|mime|content|resent)-/;

/** Structured fields that a client may set, in lower case. All others are text. */
const STRUCTURED: ReadonlyMap<string, Grammar> = new Map<string, Grammar>([
  // RFC 2369, 5064, 8058, 2919
  ['list-unsubscribe', urls()],
  ['list-subscribe', urls()],
  ['list-help', urls()],
  ['list-owner', urls()],
  ['list-archive', urls()],
  ['list-post', urls({ orNo: true })],
  ['archived-at', urls({ max: 1 })],
  ['list-unsubscribe-post', oneOf('List-Unsubscribe=One-Click')],
  ['list-id', listId],
  // RFC 5322 §3.6.4, 3297, 2156
  ['in-reply-to', messageIds],
  ['references', messageIds],
  ['original-message-id', messageIds],
  ['supersedes', messageIds],
  ['obsoletes', messageIds],
  // RFC 8098, 9057, 5703, and fields that programs use without an RFC
  ['disposition-notification-to', addresses],
  ['return-receipt-to', addresses],
  ['x-confirm-reading-to', addresses],
  ['errors-to', addresses],
  ['author', addresses],
  ['original-from', addresses],
  ['mail-followup-to', addresses],
  ['mail-reply-to', addresses],
  ['apparently-to', addresses],
  // RFC 2156
  ['expires', dateTime],
  ['expiry-date', dateTime],
  ['reply-by', dateTime],
  ['deferred-delivery', dateTime],
  ['delivery-date', dateTime],
  ['latest-delivery-time', dateTime],
  // RFC 3834, 2076, 2156, 8689, 3458, 6758
  ['auto-submitted', token],
  ['precedence', token],
  ['importance', oneOf('low', 'normal', 'high')],
  ['priority', oneOf('non-urgent', 'normal', 'urgent')],
  ['sensitivity', oneOf('Personal', 'Private', 'Company-Confidential')],
  ['autoforwarded', oneOf('TRUE', 'FALSE')],
  ['tls-required', oneOf('No')],
  ['message-context', token],
  ['mt-priority', token],
  // RFC 5322 §3.6.5
  ['keywords', phrases],
  // For machines: Gmail's feedback loop, RFC 9477, 8098, 7293, 3282, 3865, 5518, BIMI, Autocrypt
  ['feedback-id', ascii],
  ['cfbl-address', ascii],
  ['cfbl-feedback-id', ascii],
  ['disposition-notification-options', ascii],
  ['require-recipient-valid-since', ascii],
  ['original-recipient', ascii],
  ['accept-language', ascii],
  ['solicitation', ascii],
  ['vbr-info', ascii],
  ['bimi-selector', ascii],
  ['autocrypt', ascii],
]);

/** The token of RFC 9110, which every mail system accepts as a name. */
const CUSTOM_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const CUSTOM_NAME_MAX = 76;
const CUSTOM_VALUE_MAX = 8_000;
const TOO_LONG_A_WORD = `has more than ${WORD_MAX} characters without a space between, which mail cannot carry`;

/** Returns a problem that continues the header's name ("has no value: leave it out"); null when it is valid. */
export function checkCustomHeader(name: string, value: string): string | null {
  if (!CUSTOM_NAME.test(name) || name.length > CUSTOM_NAME_MAX) {
    return `is not a header name: use up to ${CUSTOM_NAME_MAX} letters, digits and hyphens`;
  }
  const lowerCase = name.toLowerCase();
  if (NOT_CUSTOM.has(lowerCase) || NOT_CUSTOM_PREFIX.test(lowerCase)) {
    return 'is written by the service: leave it out, or use the field of the request that is meant for it';
  }
  if (CONTROL.test(value)) return 'has a line break or another control character in its value';
  if (!value.isWellFormed()) return 'has a value that is not valid Unicode';
  if (value.trim() === '') return 'has no value: leave it out';
  if (value.length > CUSTOM_VALUE_MAX) return `has more than ${CUSTOM_VALUE_MAX} characters`;
  if (wordsOf(value).some((word) => word.length > WORD_MAX)) return TOO_LONG_A_WORD;
  const words = structuredWords(name, value.trim());
  return words !== null && 'problem' in words ? words.problem : null;
}

/** Returns the words of a structured field, or a problem, or null when the field is text. */
function structuredWords(name: string, value: string): ReturnType<Grammar> | null {
  const words = STRUCTURED.get(name.toLowerCase())?.(value, name) ?? null;
  if (words === null || 'problem' in words) return words;
  return words.some((word) => word.length > WORD_MAX) ? { problem: TOO_LONG_A_WORD } : words;
}

/**
 * Returns the field of a custom header.
 * @param value accepted by checkCustomHeader. In an email from before its field had a grammar, an invalid value is
 * written as text.
 */
export function customField(name: string, value: string): HeaderField {
  const words = structuredWords(name, value.trim());
  if (words === null || 'problem' in words) return textField(name, value.trim());
  const line = words.join('');
  return headerField(name, staysOnOneLine(name, line) ? [line] : words);
}

/** Some receivers find List-Unsubscribe in the raw header only if it is not folded. */
function staysOnOneLine(name: string, text: string): boolean {
  return name.toLowerCase() === 'list-unsubscribe' && name.length + 2 + text.length <= LINE_MAX;
}
