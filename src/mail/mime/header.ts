/**
 * Header fields (RFC 5322 §2.2), encoded words (RFC 2047) and parameters (RFC 2045 §5.1, RFC 2231). Only this file
 * writes header lines.
 *
 * Values are parsed before and have no control characters. A control character is a bug of the caller and throws, so
 * no string can add a header. Lines are folded before column 76, at existing white space. They are not folded
 * directly after the name: relays repair an empty first line, which breaks the signature. Text without white space
 * stays on one line of at most 998 octets.
 */
import type { Mailbox } from '../address.ts';

/** A field. `value` is as transmitted, with folds but without the final CRLF. */
export type HeaderField = { name: string; value: string };

const COLUMNS_MAX = 76;
/** RFC 5322 §2.1.1 */
export const LINE_MAX = 998;
/** Limit on a word of a client. It leaves space for the field name. */
export const WORD_MAX = 900;

/** C0, DEL and C1. */
export const CONTROL = /[\0-\x1f\x7f-\x9f]/;
/** RFC 5322 §3.6.8: printable ASCII except the colon. */
const FIELD_NAME = /^[!-9;-~]+$/;
const ATOMS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
/** Limit on a quoted string. A longer one would be folded, which can change its spaces. */
const QUOTED_MAX = 60;
export const ENCODED_WORD_OCTETS_MAX = 75;
/** `=?utf-8?Q?` and `?=` */
const FRAME_OCTETS = 12;
const SPACE = 0x20;
const PLAIN_IN_Q = /^[A-Za-z0-9!*+/ -]$/;
/** Limit on a quoted value; longer values are split into sections. */
const PARAMETER_MAX = 60;
/** Limit on percent-encoded text, so that it fits on a line after ` filename*0*=utf-8''`. */
const PIECE_MAX = 54;
const MEDIA_TYPE_MAX = 200;
/** `type/subtype`, with parameters that are tokens or quoted strings without escapes. */
const MEDIA_TYPE =
  /^[\w!#$&^+.-]+\/[\w!#$&^+.-]+(?: ?; ?[\w!#$&^+.*-]+=(?:[\w!#$%&'*+.^`{|}~-]+|"[ !#-[\]-~]*"))*$/;
const CONTENT_ID = /^[^\0-\x20\x7f-\uffff<>()[\]\\",;:]{1,200}$/;

/** Returns a field with text for people: Subject and unstructured custom fields. */
export function textField(name: string, text: string): HeaderField {
  refuseControls(name, text);
  const words = wordsOf(text);
  return headerField(
    name,
    isPlainText(text, words) ? words : separateBySpaces(encodeForField(name, text)),
  );
}

/**
 * Returns From, To, Cc or Reply-To.
 * @param asciiOnly writes an address outside of ASCII as the name of an empty group (RFC 6857 §3.1.8): people can
 * read it but not reply to it
 */
export function addressField(
  name: string,
  mailboxes: readonly Mailbox[],
  options: { asciiOnly?: boolean } = {},
): HeaderField {
  return headerField(name, addressWords(name, mailboxes, options));
}

export function addressWords(
  name: string,
  mailboxes: readonly Mailbox[],
  { asciiOnly = false }: { asciiOnly?: boolean } = {},
): string[] {
  const last = mailboxes.length - 1;
  const words = mailboxes.flatMap(({ name: phrase, address }, index) => {
    const comma = index < last ? ',' : '';
    if (asciiOnly && !isPrintableAscii(address)) {
      const groupName = phrase === null ? address : `${phrase} <${address}>`;
      return [...encodeForField(index === 0 ? name : '', groupName), `:;${comma}`];
    }
    if (phrase === null) return [`${address}${comma}`];
    return [...phraseWords(phrase, index === 0 ? name : ''), `<${address}>${comma}`];
  });
  return separateBySpaces(words);
}

/** Returns a field that may be folded between words. Later words include their preceding white space. */
export function headerField(name: string, words: readonly string[]): HeaderField {
  for (const word of words) {
    refuseControls(name, word);
    if (name.length + 2 + word.length > LINE_MAX)
      throw new Error(`${name} has no space for a word`);
  }
  if (!FIELD_NAME.test(name)) throw new Error(`${JSON.stringify(name)} is not a header name`);
  return { name, value: fold(words, name.length + 2) };
}

/** Formats a date like `Sat, 21 Nov 2026 08:30:00 +0000` (RFC 5322 §3.3). */
export function dateText(date: Date): string {
  return date.toUTCString().replace('GMT', '+0000');
}

export function headerLine({ name, value }: HeaderField): string {
  return `${name}: ${value}\r\n`;
}

function refuseControls(name: string, value: string): void {
  if (CONTROL.test(value)) {
    throw new Error(`The header ${JSON.stringify(name)} would have a control character in it.`);
  }
}

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

/** Splits a text before each run of spaces, where a field may be folded. */
export function wordsOf(text: string): string[] {
  return text.split(/(?<! )(?= )/);
}

export function separateBySpaces(words: readonly string[]): string[] {
  return words.map((word, index) => (index === 0 ? word : ` ${word}`));
}

/** Returns whether the text needs no encoding: foldable printable ASCII without outer spaces and encoded words. */
function isPlainText(text: string, words: readonly string[]): boolean {
  if (!isPrintableAscii(text) || text.includes('=?') || text.trim() !== text) return false;
  return words.every((word) => word.length <= WORD_MAX);
}

export function isPrintableAscii(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

/** Returns encoded words. The first leaves space for the field name; '' means a later line. */
function encodeForField(fieldName: string, text: string): string[] {
  const reserved =
    fieldName === '' ? 0 : fieldName.length + 2 - (COLUMNS_MAX - ENCODED_WORD_OCTETS_MAX);
  return encodedWords(text, ENCODED_WORD_OCTETS_MAX - Math.max(0, reserved));
}

/**
 * Returns a display name or another phrase (RFC 5322 §3.2.5): atoms, a quoted string, or encoded words.
 * @param fieldName the field that begins with the phrase; '' when something precedes it
 */
export function phraseWords(name: string, fieldName: string): string[] {
  if (!isPrintableAscii(name) || name.includes('=?')) return encodeForField(fieldName, name);
  const words = name.split(' ');
  if (ATOMS.test(name) && words.every((word) => word.length <= QUOTED_MAX)) return words;
  if (name.length > QUOTED_MAX) return encodeForField(fieldName, name);
  return [`"${name.replace(/["\\]/g, '\\$&')}"`];
}

/** `capacity` of an encoded word and `cost` of a character in it, in octets. */
type Encoding = {
  letter: 'B' | 'Q';
  capacity(octets: number): number;
  cost(codePoint: number): number;
};

const B: Encoding = {
  letter: 'B',
  capacity: (octets) => Math.floor(octets / 4) * 3,
  cost: utf8Length,
};

const Q: Encoding = {
  letter: 'Q',
  capacity: (octets) => octets,
  cost: (codePoint) => (isPlainInQ(codePoint) ? 1 : 3 * utf8Length(codePoint)),
};

/**
 * Returns the text as encoded words. The caller separates them with white space, which readers drop.
 * @param firstOctetsMax limit on the first word, which follows the field's name
 */
export function encodedWords(text: string, firstOctetsMax: number): string[] {
  const encoding = shorterEncoding(text);
  let capacity = encoding.capacity(firstOctetsMax - FRAME_OCTETS);
  const words: string[] = [];
  let start = 0;
  let used = 0;
  for (let at = 0; at < text.length;) {
    const codePoint = text.codePointAt(at)!;
    const cost = encoding.cost(codePoint);
    if (used + cost > capacity && at > start) {
      words.push(encodedWord(text.slice(start, at), encoding));
      capacity = encoding.capacity(ENCODED_WORD_OCTETS_MAX - FRAME_OCTETS);
      start = at;
      used = 0;
    }
    used += cost;
    at += codePoint > 0xffff ? 2 : 1;
  }
  words.push(encodedWord(text.slice(start), encoding));
  return words;
}

function shorterEncoding(text: string): Encoding {
  let lengthInQ = 0;
  for (const character of text) lengthInQ += Q.cost(character.codePointAt(0)!);
  return lengthInQ <= Math.ceil(Buffer.byteLength(text) / 3) * 4 ? Q : B;
}

function encodedWord(text: string, { letter }: Encoding): string {
  const bytes = Buffer.from(text);
  const encoded = letter === 'B' ? bytes.toString('base64') : Array.from(bytes, inQ).join('');
  return `=?utf-8?${letter}?${encoded}?=`;
}

function inQ(byte: number): string {
  if (byte === SPACE) return '_';
  if (isPlainInQ(byte)) return String.fromCharCode(byte);
  return `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

/** Returns whether Q leaves the character unencoded (a space becomes `_`), also in a display name (RFC 2047 §5 (3)). */
function isPlainInQ(codePoint: number): boolean {
  return codePoint < 0x80 && PLAIN_IN_Q.test(String.fromCharCode(codePoint));
}

function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x1_0000 ? 3 : 4;
}

/**
 * Returns the words of `value; name="text"`, or of `value; name*=utf-8''te%C3%A4t` if the text requires it. A long
 * text is split into sections, between which the field may be folded.
 */
export function withParameter(value: string, name: string, text: string): string[] {
  // No backslashes, because many readers do not undo escapes. No encoded words, because many readers decode them.
  if (text.length <= PARAMETER_MAX && /^[ !#-[\]-~]*$/.test(text) && !text.includes('=?')) {
    return [`${value};`, ` ${name}="${text}"`];
  }
  const pieces = percentEncodePieces(text);
  if (pieces.length === 1) return [`${value};`, ` ${name}*=utf-8''${pieces[0]}`];
  const words = pieces.map((piece, index) => {
    const charset = index === 0 ? "utf-8''" : '';
    const end = index < pieces.length - 1 ? ';' : '';
    return ` ${name}*${index}*=${charset}${piece}${end}`;
  });
  return [`${value};`, ...words];
}

/** Returns pieces of at most PIECE_MAX octets, split between characters. */
function percentEncodePieces(text: string): string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const character of text) {
    const encoded = /^[A-Za-z0-9._-]$/.test(character) ? character : percentEncode(character);
    if (piece.length + encoded.length > PIECE_MAX) {
      pieces.push(piece);
      piece = '';
    }
    piece += encoded;
  }
  return [...pieces, piece];
}

export function percentEncode(character: string): string {
  const octets = Array.from(Buffer.from(character), (octet) => octet.toString(16).toUpperCase());
  return octets.map((octet) => `%${octet.padStart(2, '0')}`).join('');
}

/** Returns whether the text is a valid Content-Type: `application/pdf`, `text/plain; charset=utf-8`. */
export function isMediaType(text: string): boolean {
  return text.length <= MEDIA_TYPE_MAX && MEDIA_TYPE.test(text);
}

/** Returns whether Content-ID can contain this text between `<` and `>`, for `cid:` links. */
export function isContentId(text: string): boolean {
  return CONTENT_ID.test(text);
}
