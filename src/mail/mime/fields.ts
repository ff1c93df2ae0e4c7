/**
 * Parses the structured fields of MIME: Content-Type and Content-Disposition with parameters (RFC 2045 §5.1, 2183,
 * 2231), Content-Transfer-Encoding (RFC 2045 §6.1) and Content-ID. Reading and rewriting use the same results.
 *
 * Comments may stand between any two tokens, also nested and with quoted pairs. Types, parameter names and encodings
 * are case-insensitive. Lenient and linear: invalid text is skipped up to the next `;`, and an unquoted value may
 * have characters that should be quoted.
 */
import { decodeText, decodeWords, type TransferEncoding } from './decode.ts';

const VALUE_CHARS_MAX = 4_096;
const PARAMETERS_MAX = 200;

export type Parameters = ReadonlyMap<string, string>;

export type ContentType = {
  /** For example `text/plain`, in lower case. */
  type: string;
  parameters: Parameters;
};

const TYPE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+$/;
const ENCODINGS = new Map<string, TransferEncoding>([
  ['7bit', 'identity'],
  ['8bit', 'identity'],
  ['binary', 'identity'],
  ['base64', 'base64'],
  ['quoted-printable', 'quoted-printable'],
]);
/** Parameters in which writers use encoded words, although RFC 2047 §5 forbids it. Readers decode them. */
const FILE_NAMES: ReadonlySet<string> = new Set(['filename', 'name']);
const SECTIONED = /^([^*]+)\*(\d{1,3})(\*?)$/;
const CHARSET = /^([\w.:+-]{0,40})'[\w-]*'/;
/**
 * Matched at the scanner's position. Their blanks must be the blanks of isBlank, or the scanner would stop for ever
 * (U+00A0).
 */
const WORD = /[^\t-\r ;(]+/y;
const NAME = /[^\t-\r ;=("]+/y;
const GARBAGE = /[^\t-\r ;("]+/y;
const QUOTED = /"([^"\\]*(?:\\[^][^"\\]*)*)"?/y;
const BRACKETED = /<([^<>]{1,998})>/y;
/** Parentheses and quoted pairs, for finding the end of nested comments. */
const COMMENT_MARK = /[()]|\\[^]/g;

/** Parses Content-Type; an invalid value is text/plain (RFC 2045 §5.2). */
export function readContentType(value: string): ContentType {
  const scanner = new Scanner(value);
  const { word: type } = scanner.value();
  if (!TYPE.test(type)) return { type: 'text/plain', parameters: new Map() };
  return { type: type.toLowerCase(), parameters: readParameters(scanner) };
}

export type Disposition = {
  /** `inline`, `attachment` or another word in lower case; '' when absent. */
  type: string;
  parameters: Parameters;
};

export function readDisposition(value: string): Disposition {
  const scanner = new Scanner(value);
  const { word } = scanner.value();
  return { type: word.toLowerCase(), parameters: readParameters(scanner) };
}

/** Parses Content-Transfer-Encoding; absent means 7bit. */
export function readTransferEncoding(value = '7bit'): TransferEncoding {
  // Fast path: the value is almost always exactly one of these words.
  const known = ENCODINGS.get(value);
  if (known !== undefined) return known;
  const { word, isAlone } = new Scanner(value).value();
  return (isAlone && ENCODINGS.get(word.toLowerCase())) || 'unknown';
}

/** Returns the id without its angle brackets; null when there is none. */
export function readContentId(value: string): string | null {
  return new Scanner(value).bracketed();
}

/** A raw parameter value, possibly one section of it (RFC 2231 §3). */
type Piece = { text: string; isExtended: boolean };
type Pieces = { plain: Piece | null; extended: Piece | null; sections: Map<number, Piece> };

/** Returns the parameters. The extended value wins over a plain one; among equals, the first wins. */
function readParameters(scanner: Scanner): Parameters {
  const piecesByName = new Map<string, Pieces>();
  for (let count = 0; count < PARAMETERS_MAX && scanner.nextParameter(); count += 1) {
    const rawName = scanner.name().toLowerCase();
    const text = scanner.parameterValue();
    if (rawName === '' || text === null) continue;
    const [, base = '', section, star] = SECTIONED.exec(rawName) ?? [];
    const isExtended = section === undefined ? /^[^*]+\*$/.test(rawName) : star === '*';
    const name = section !== undefined ? base : isExtended ? rawName.slice(0, -1) : rawName;
    const pieces = piecesByName.get(name) ?? { plain: null, extended: null, sections: new Map() };
    piecesByName.set(name, pieces);
    const piece = { text, isExtended };
    if (section === undefined) pieces[isExtended ? 'extended' : 'plain'] ??= piece;
    else if (!pieces.sections.has(Number(section))) pieces.sections.set(Number(section), piece);
  }
  const values = new Map<string, string>();
  for (const [name, pieces] of piecesByName) {
    const effective = effectivePieces(pieces);
    if (effective.length > 0) values.set(name, valueOf(name, effective));
  }
  return values;
}

function effectivePieces({ plain, extended, sections }: Pieces): Piece[] {
  if (extended !== null) return [extended];
  const pieces = consecutiveSections(sections);
  return pieces.length > 0 || plain === null ? pieces : [plain];
}

function valueOf(name: string, pieces: readonly Piece[]): string {
  const isEncodedWords = FILE_NAMES.has(name) && pieces.every(({ isExtended }) => !isExtended);
  return isEncodedWords ? decodeWords(joinPieces(pieces)) : joinPieces(pieces);
}

/** Returns the sections from 0 up to the first missing one, in any order of the field. */
function consecutiveSections(sections: ReadonlyMap<number, Piece>): Piece[] {
  const pieces: Piece[] = [];
  for (let section = sections.get(0); section !== undefined;) {
    pieces.push(section);
    section = sections.get(pieces.length);
  }
  return pieces;
}

/** Decodes the octets of all sections together, because a character may be split between two. */
function joinPieces(pieces: readonly Piece[]): string {
  if (pieces.every(({ isExtended }) => !isExtended)) return pieces.map(({ text }) => text).join('');
  const [first] = pieces;
  const [prefix = '', charset = ''] = (first?.isExtended && CHARSET.exec(first.text)) || [];
  const octets = pieces.map(({ text, isExtended }, index) => {
    const value = index === 0 ? text.slice(prefix.length) : text;
    return isExtended ? percentDecode(value) : Buffer.from(value);
  });
  return decodeText(Buffer.concat(octets), charset);
}

/** A `%` without an octet is literal. */
function percentDecode(text: string): Buffer {
  const octets = Buffer.from(text).toString('latin1');
  const decoded = octets.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(decoded, 'latin1');
}

class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text.slice(0, VALUE_CHARS_MAX);
  }

  /**
   * Returns the word before the first `;`, and whether nothing else is before the `;`. White space and comments may
   * surround its slash.
   */
  value(): { word: string; isAlone: boolean } {
    let [word, isAlone] = ['', true];
    for (this.#skipBlanks(); ; this.#skipBlanks()) {
      const next = this.#take(WORD)?.[0];
      if (next === undefined) return { word, isAlone };
      if (word === '' || word.endsWith('/') || next.startsWith('/')) word += next;
      else isAlone = false;
    }
  }

  bracketed(): string | null {
    this.#skipBlanks();
    return this.#take(BRACKETED)?.[1] ?? null;
  }

  /** Moves behind the next `;`; false when there is none. */
  nextParameter(): boolean {
    while (this.#at < this.#text.length) {
      this.#skipBlanks();
      if (this.#text[this.#at] === ';') {
        this.#at += 1;
        return true;
      }
      if (this.#take(QUOTED) === null) this.#take(GARBAGE);
    }
    return false;
  }

  name(): string {
    this.#skipBlanks();
    return this.#take(NAME)?.[0] ?? '';
  }

  parameterValue(): string | null {
    this.#skipBlanks();
    if (this.#text[this.#at] !== '=') return null;
    this.#at += 1;
    this.#skipBlanks();
    const quoted = this.#take(QUOTED);
    if (quoted !== null) return quoted[1]?.replace(/\\([^])/g, '$1') ?? '';
    return this.#unquoted();
  }

  /** Parentheses inside an unquoted value belong to it, as in `filename=report(1).pdf`. */
  #unquoted(): string {
    const start = this.#at;
    for (;;) {
      this.#take(WORD);
      const end = this.#at;
      if (this.#text[end] === '(') this.#at = this.#commentEnd();
      const next = this.#text[this.#at];
      const isInside = this.#at > end && next !== undefined && next !== ';' && next !== '(';
      if (isInside && !isBlank(next)) continue;
      return this.#text.slice(start, end);
    }
  }

  #skipBlanks(): void {
    for (; ; this.#at += 1) {
      const character = this.#text[this.#at];
      if (character === undefined) return;
      if (character === '(') this.#at = this.#commentEnd() - 1;
      else if (!isBlank(character)) return;
    }
  }

  /** Returns the offset behind the comment that begins here; the end of the text when it is not closed. */
  #commentEnd(): number {
    COMMENT_MARK.lastIndex = this.#at;
    for (let depth = 0; ;) {
      const mark = COMMENT_MARK.exec(this.#text)?.[0];
      if (mark === undefined) return this.#text.length;
      if (mark === '(') depth += 1;
      else if (mark === ')') depth -= 1;
      if (depth === 0) return COMMENT_MARK.lastIndex;
    }
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match !== null) this.#at = pattern.lastIndex;
    return match;
  }
}

function isBlank(character: string): boolean {
  return character === ' ' || (character >= '\t' && character <= '\r');
}
