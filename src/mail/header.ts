/**
 * Header fields (RFC 5322 §2.2, RFC 2047): the only place where header lines are made.
 *
 * Values come in parsed and without control characters. One that has some all the same is a bug
 * upstream and throws, so that no string can add a header. Lines are folded before 76 columns on
 * white space that is there already, never right after the name: relays repair an empty first line
 * and break the signature with it. What cannot be folded stays on one line, of 998 octets at most.
 */
import type { Mailbox } from './address.ts';
import { ENCODED_WORD_OCTETS_MAX, encodedWords } from './encoded-word.ts';

/** One field; `value` as on the wire, with its folds, without the CRLF that ends it. */
export type HeaderField = { name: string; value: string };

const COLUMNS_MAX = 76;
/** RFC 5322 §2.1.1 */
const LINE_MAX = 998;
/** What a client may send in one word: leaves room for the name. */
const WORD_MAX = 900;

/** C0, DEL and C1. */
const CONTROL = /[\0-\x1f\x7f-\x9f]/;
/** RFC 5322 §3.6.8: printable ASCII but the colon. */
const FIELD_NAME = /^[!-9;-~]+$/;

/** A field whose value is text for people: Subject, and custom ones. */
export function textField(name: string, text: string): HeaderField {
  refuseControls(name, text);
  const words = wordsOf(text);
  if (!isPlainText(text, words)) return field(name, spaced(encodedText(name, text)));
  return field(name, staysOnOneLine(name, text) ? [text] : words);
}

/** Receivers that look for this field in the raw header find it only where it is not folded. */
function staysOnOneLine(name: string, text: string): boolean {
  return name.toLowerCase() === 'list-unsubscribe' && name.length + 2 + text.length <= LINE_MAX;
}

/** From, To, Cc, Reply-To. */
export function addressField(name: string, mailboxes: readonly Mailbox[]): HeaderField {
  const last = mailboxes.length - 1;
  const words = mailboxes.flatMap(({ name: phrase, address }, index) => {
    const comma = index < last ? ',' : '';
    if (phrase === null) return [`${address}${comma}`];
    return [...phraseWords(phrase, index === 0 ? name : ''), `<${address}>${comma}`];
  });
  return field(name, spaced(words));
}

/**
 * A field from words that may go to a line of their own; a word after the first brings the white
 * space in front of it along.
 */
export function field(name: string, words: readonly string[]): HeaderField {
  for (const word of words) {
    refuseControls(name, word);
    if (name.length + 2 + word.length > LINE_MAX) throw new Error(`${name} has no room for a word`);
  }
  if (!FIELD_NAME.test(name)) throw new Error(`${JSON.stringify(name)} is no name for a header`);
  return { name, value: fold(words, name.length + 2) };
}

/** `Name: value` and CRLF, ready to be sent. */
export function headerLine({ name, value }: HeaderField): string {
  return `${name}: ${value}\r\n`;
}

function refuseControls(name: string, value: string): void {
  if (CONTROL.test(value)) {
    throw new Error(`The header ${JSON.stringify(name)} would have a control character in it.`);
  }
}

/** @param column where the first word begins */
function fold(words: readonly string[], column: number): string {
  const oneLine = words.join('');
  if (column + oneLine.length <= COLUMNS_MAX) return oneLine;
  let folded = '';
  for (const [index, word] of words.entries()) {
    const fits = column + word.length <= COLUMNS_MAX;
    folded += index === 0 || fits ? word : `\r\n${word}`;
    column = index === 0 || fits ? column + word.length : word.length;
  }
  return folded;
}

/** Cut before each run of spaces. */
function wordsOf(text: string): string[] {
  return text.split(/(?<! )(?= )/);
}

function spaced(words: readonly string[]): string[] {
  return words.map((word, index) => (index === 0 ? word : ` ${word}`));
}

/** Printable ASCII that arrives as it is: foldable, no spaces at its ends, no encoded words. */
function isPlainText(text: string, words: readonly string[]): boolean {
  if (!isPrintableAscii(text) || text.includes('=?') || text.trim() !== text) return false;
  return words.every((word) => word.length <= WORD_MAX);
}

function isPrintableAscii(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

/** As words that leave the line of the field's name within 76 columns; '' when it is another line. */
function encodedText(fieldName: string, text: string): string[] {
  const taken =
    fieldName === '' ? 0 : fieldName.length + 2 - (COLUMNS_MAX - ENCODED_WORD_OCTETS_MAX);
  return encodedWords(text, ENCODED_WORD_OCTETS_MAX - Math.max(0, taken));
}

const ATOMS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
/** A quoted string is not folded, so that the spaces in it stay what they are. */
const QUOTED_MAX = 60;

/** A display name (RFC 5322 §3.2.5): atoms, a quoted string, or encoded words. */
function phraseWords(name: string, fieldName: string): string[] {
  if (!isPrintableAscii(name) || name.includes('=?')) return encodedText(fieldName, name);
  const words = name.split(' ');
  if (ATOMS.test(name) && words.every((word) => word.length <= QUOTED_MAX)) return words;
  if (name.length > QUOTED_MAX) return encodedText(fieldName, name);
  return [`"${name.replace(/["\\]/g, '\\$&')}"`];
}

/** Fields that Posthorn writes, or that tell where a message came from. */
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
  'authentication-results',
]);
const NOT_CUSTOM_PREFIX = /^(?:dkim|arc|mime|content|resent)-/;

/** RFC 9110's token: what every mail system takes for a name. */
const CUSTOM_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const CUSTOM_NAME_MAX = 76;
const CUSTOM_VALUE_MAX = 8_000;

/**
 * What is wrong with a header that a client wants to add, to be read after its name ("has no
 * value: leave it out"); null when nothing is.
 */
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
  if (wordsOf(value).some((word) => word.length > WORD_MAX)) {
    return `has more than ${WORD_MAX} characters without a space between, which mail cannot carry`;
  }
  return null;
}
