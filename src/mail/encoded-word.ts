/**
 * Text outside of ASCII in header fields: encoded words (RFC 2047), at most 75 octets each, cut
 * between characters, in B or Q, whichever is shorter for the whole text.
 */

export const ENCODED_WORD_OCTETS_MAX = 75;
/** `=?utf-8?Q?` and `?=` */
const FRAME_OCTETS = 12;

/** The octets of a word that a character may fill, and how many octets it takes in them. */
type Encoding = {
  letter: 'B' | 'Q';
  room(octets: number): number;
  cost(codePoint: number): number;
};

const B: Encoding = {
  letter: 'B',
  room: (octets) => Math.floor(octets / 4) * 3,
  cost: utf8Length,
};

const Q: Encoding = {
  letter: 'Q',
  room: (octets) => octets,
  cost: (codePoint) => (isPlainInQ(codePoint) ? 1 : 3 * utf8Length(codePoint)),
};

/**
 * The text as encoded words, to be written with white space between them: readers drop it.
 * @param firstOctetsMax room for the first one, which follows the field's name
 */
export function encodedWords(text: string, firstOctetsMax: number): string[] {
  const encoding = shorterEncoding(text);
  let room = encoding.room(firstOctetsMax - FRAME_OCTETS);
  const words: string[] = [];
  let start = 0;
  let used = 0;
  for (let at = 0; at < text.length;) {
    const codePoint = text.codePointAt(at)!;
    const cost = encoding.cost(codePoint);
    if (used + cost > room && at > start) {
      words.push(encodedWord(text.slice(start, at), encoding));
      room = encoding.room(ENCODED_WORD_OCTETS_MAX - FRAME_OCTETS);
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

const SPACE = 0x20;
const PLAIN_IN_Q = /^[A-Za-z0-9!*+/ -]$/;

/** What Q shows as it is (a space as `_`), also within a display name (RFC 2047 §5 (3)). */
function isPlainInQ(codePoint: number): boolean {
  return codePoint < 0x80 && PLAIN_IN_Q.test(String.fromCharCode(codePoint));
}

function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x1_0000 ? 3 : 4;
}
