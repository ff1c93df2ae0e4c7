/**
 * Decodes received octets to text: transfer encodings (RFC 2045 §6), charsets and encoded words (RFC 2047). Lenient,
 * bounded and linear. Invalid input is returned unchanged.
 */

/** `identity`: 7bit, 8bit or binary. */
export type TransferEncoding = 'identity' | 'base64' | 'quoted-printable' | 'unknown';

/** Limit on separately encoded pieces in one body. */
const BASE64_PIECES_MAX = 10_000;
const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;
const EQUALS = 61;
const SPACES_MAX = 100;
const CHARSET_NAME_MAX = 40;
const LIKE_UTF8 = new Set(['', 'utf-8', 'utf8', 'us-ascii', 'ascii', 'default', 'unknown']);
/** Limit for one value; further words are not decoded. Each may name another charset, which takes time. */
const ENCODED_WORDS_MAX = 200;
const ENCODED_WORD = /=\?([^?\s]{1,60})\?([bq])\?([^?\s]{0,2000})\?=/gi;

/** Removes the transfer encoding of a body; with an unknown encoding, returns the body unchanged. */
export function decodeBody(body: Buffer, encoding: TransferEncoding): Buffer {
  if (encoding === 'base64') return decodeBase64(body);
  return encoding === 'quoted-printable' ? decodeQuotedPrintable(body) : body;
}

/** Node skips characters outside of base64, including line ends, but stops at the first padding. */
function decodeBase64(body: Buffer): Buffer {
  const text = body.toString('latin1');
  const padding = text.indexOf('=');
  if (padding < 0 || !/[^=\s]/.test(text.slice(padding))) return Buffer.from(text, 'base64');
  const output = Buffer.allocUnsafe(body.length);
  let [from, at] = [0, 0];
  for (let pieces = 0; pieces < BASE64_PIECES_MAX && from < text.length; pieces += 1) {
    const end = text.indexOf('=', from);
    const pieceEnd = end < 0 ? text.length : end;
    at += output.write(text.slice(from, pieceEnd), at, 'base64');
    from = pieceEnd + 1;
  }
  return output.subarray(0, at);
}

/** An `=` without an octet or a soft line end is literal. */
function decodeQuotedPrintable(body: Buffer): Buffer {
  let from = body.indexOf(EQUALS);
  if (from < 0) return body;
  const output = Buffer.allocUnsafe(body.length);
  let at = body.copy(output, 0, 0, from);
  while (from < body.length) {
    const octet = body[from]!;
    const escaped = octet === EQUALS ? octetAfter(body, from) : -1;
    const end = octet === EQUALS && escaped < 0 ? softLineEnd(body, from + 1) : -1;
    if (end >= 0) {
      from = end;
    } else {
      output[at++] = escaped < 0 ? octet : escaped;
      from += escaped < 0 ? 1 : 3;
    }
  }
  return output.subarray(0, at);
}

function octetAfter(bytes: Buffer, at: number): number {
  const high = hexDigit(bytes[at + 1]);
  const low = hexDigit(bytes[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

function hexDigit(octet = 0): number {
  if (octet >= 48 && octet <= 57) return octet - 48;
  const letter = octet | 0x20;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

function softLineEnd(body: Buffer, start: number): number {
  let at = start;
  while (at - start < SPACES_MAX && (body[at] === SPACE || body[at] === TAB)) at += 1;
  if (body[at] === CR) at += 1;
  if (body[at] === LF) return at + 1;
  return at >= body.length ? at : -1;
}

/** Charset names in mail that are not in the Encoding Standard. */
const CHARSETS_BY_OTHER_NAMES: Readonly<Record<string, string>> = {
  cp932: 'shift_jis',
  ms932: 'shift_jis',
  'x-sjis-jp': 'shift_jis',
  'shift-jis-2004': 'shift_jis',
  'iso-2022-jp-1': 'iso-2022-jp',
  'iso-2022-jp-2': 'iso-2022-jp',
  'iso-2022-jp-3': 'iso-2022-jp',
  'iso-2022-jp-ms': 'iso-2022-jp',
  cp50220: 'iso-2022-jp',
  cp50221: 'iso-2022-jp',
  'eucjp-ms': 'euc-jp',
  cp949: 'euc-kr',
  ks_c_5601: 'euc-kr',
  cp936: 'gbk',
  cp950: 'big5',
  iso8859_1: 'iso-8859-1',
  'latin-1': 'iso-8859-1',
  utf8mb4: 'utf-8',
  'unicode-1-1-utf-8': 'utf-8',
};

/** Only valid charsets are stored, so the size is limited. */
const decoders = new Map<string, TextDecoder>();

/** Without a charset, or in ASCII: UTF-8 if valid, else Latin-1. An unknown charset is read as Latin-1. */
export function decodeText(bytes: Buffer, charset: string): string {
  const name = charset.slice(0, CHARSET_NAME_MAX).toLowerCase().trim();
  if (!LIKE_UTF8.has(name)) {
    const decoder = decoderFor(CHARSETS_BY_OTHER_NAMES[name] ?? name);
    return decoder === null ? bytes.toString('latin1') : decoder.decode(bytes);
  }
  const text = bytes.toString();
  return text.includes('\ufffd') && !name.startsWith('utf') ? bytes.toString('latin1') : text;
}

function decoderFor(name: string): TextDecoder | null {
  const known = decoders.get(name);
  if (known !== undefined) return known;
  try {
    const decoder = new TextDecoder(name);
    decoders.set(name, decoder);
    return decoder;
  } catch {
    return null;
  }
}

type Word = { charset: string; bytes: Buffer };

/** Decodes adjacent words of one charset together, because many writers split them within a character. */
export function decodeWords(value: string): string {
  if (!value.includes('=?')) return value;
  const output: string[] = [];
  let words: Word[] = [];
  let count = 0;
  let end = 0;
  for (const match of value.matchAll(ENCODED_WORD)) {
    const between = value.slice(end, match.index);
    const [encodedWord, charset = '', letter = '', text = ''] = match;
    if (between.trim() !== '' || words[0]?.charset !== charset.toLowerCase()) {
      output.push(textOf(words));
      if (between.trim() !== '' || words.length === 0) output.push(between);
      words = [];
    }
    words.push({ charset: charset.toLowerCase(), bytes: wordBytes(letter, text) });
    end = match.index + encodedWord.length;
    count += 1;
    if (count >= ENCODED_WORDS_MAX) break;
  }
  return [...output, textOf(words), value.slice(end)].join('');
}

function textOf(words: readonly Word[]): string {
  const [first] = words;
  if (first === undefined) return '';
  // RFC 2231 §5 permits a language after the charset.
  const [charset = ''] = first.charset.split('*');
  return decodeText(Buffer.concat(words.map(({ bytes }) => bytes)), charset);
}

function wordBytes(letter: string, text: string): Buffer {
  if (letter.toUpperCase() === 'B') return Buffer.from(text, 'base64');
  // Underscores first, because `=5F` is a literal underscore (RFC 2047 §4.2).
  return decodeQuotedPrintable(Buffer.from(text.replaceAll('_', ' '), 'latin1'));
}
