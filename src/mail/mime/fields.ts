/**
 * Reads the structured fields of MIME: Content-Type and Content-Disposition with their parameters (RFC 2045 §5.1,
 * 2183, 2231), Content-Transfer-Encoding (RFC 2045 §6.1) and Content-ID. Reading and rewriting use the same results.
 *
 * Comments, also nested ones and those with quoted pairs, may stand between any two tokens. Types, names of parameters
 * and encodings are case-insensitive. Lenient and linear: what is not grammar is skipped up to the next `;`,
 * and an unquoted value may have characters that should be quoted.
 */
import { decodeText, decodeWords, type TransferEncoding } from './decode.ts';

const VALUE_CHARS_MAX = 4_096;
const PARAMETERS_MAX = 200;

/** Values by names in lower case. */
export type Parameters = ReadonlyMap<string, string>;

export type ContentType = {
  /** `text/plain`, in lower case. */
  type: string;
  parameters: Parameters;
};

/** An invalid value counts as text/plain (RFC 2045 §5.2). */
export function readContentType(value: string): ContentType {
  const scanner = new Scanner(value);
  const { word: type } = scanner.value();
  if (!TYPE.test(type)) return { type: 'text/plain', parameters: new Map() };
  return { type: type.toLowerCase(), parameters: readParameters(scanner) };
}

const TYPE = /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+$/;

export type Disposition = {
  /** `inline`, `attachment`, in lower case; '' when there is none. */
  type: string;
  parameters: Parameters;
};

export function readDisposition(value: string): Disposition {
  const scanner = new Scanner(value);
  const { word } = scanner.value();
  return { type: word.toLowerCase(), parameters: readParameters(scanner) };
}

const ENCODINGS = new Map<string, TransferEncoding>([
  ['7bit', 'identity'],
  ['8bit', 'identity'],
  ['binary', 'identity'],
  ['base64', 'base64'],
  ['quoted-printable', 'quoted-printable'],
]);

/** Without the field, the encoding is 7bit. */
export function readTransferEncoding(value = '7bit'): TransferEncoding {
  // Almost always it is one of these words.
  const known = ENCODINGS.get(value);
  if (known !== undefined) return known;
  const { word, isAlone } = new Scanner(value).value();
  return (isAlone && ENCODINGS.get(word.toLowerCase())) || 'unknown';
}

/** The id without its angle brackets; null when there is none. */
export function readContentId(value: string): string | null {
  return new Scanner(value).bracketed();
}

/** Writers put encoded words into these, although RFC 2047 §5 forbids it, and readers decode them. */
const FILE_NAMES: ReadonlySet<string> = new Set(['filename', 'name']);

/** A parameter as it stands in the field, possibly in sections (RFC 2231 §3). */
type Piece = { text: string; isExtended: boolean };
type Pieces = { plain: Piece | null; extended: Piece | null; sections: Map<number, Piece> };

const SECTIONED = /^([^*]+)\*(\d{1,3})(\*?)$/;

/** Of several values, the extended one counts, and of equal ones the first. */
function readParameters(scanner: Scanner): Parameters {
  const found = new Map<string, Pieces>();
  for (let count = 0; count < PARAMETERS_MAX && scanner.nextParameter(); count += 1) {
    const written = scanner.name().toLowerCase();
    const text = scanner.parameterValue();
    if (written === '' || text === null) continue;
    const [, base = '', section, star] = SECTIONED.exec(written) ?? [];
    const isExtended = section === undefined ? /^[^*]+\*$/.test(written) : star === '*';
    const name = section !== undefined ? base : isExtended ? written.slice(0, -1) : written;
    const pieces = found.get(name) ?? { plain: null, extended: null, sections: new Map() };
    found.set(name, pieces);
    const piece = { text, isExtended };
    if (section === undefined) pieces[isExtended ? 'extended' : 'plain'] ??= piece;
    else if (!pieces.sections.has(Number(section))) pieces.sections.set(Number(section), piece);
  }
  const values = new Map<string, string>();
  for (const [name, pieces] of found) {
    const inForce = piecesInForce(pieces);
    if (inForce.length > 0) values.set(name, valueOf(name, inForce));
  }
  return values;
}

function piecesInForce({ plain, extended, sections }: Pieces): Piece[] {
  if (extended !== null) return [extended];
  const pieces = inOrder(sections);
  return pieces.length > 0 || plain === null ? pieces : [plain];
}

function valueOf(name: string, pieces: readonly Piece[]): string {
  const isEncodedWords = FILE_NAMES.has(name) && pieces.every(({ isExtended }) => !isExtended);
  return isEncodedWords ? decodeWords(joined(pieces)) : joined(pieces);
}

/** From section 0 up to the first that is missing, wherever they stand in the field. */
function inOrder(sections: ReadonlyMap<number, Piece>): Piece[] {
  const pieces: Piece[] = [];
  for (let section = sections.get(0); section !== undefined;) {
    pieces.push(section);
    section = sections.get(pieces.length);
  }
  return pieces;
}

const CHARSET = /^([\w.:+-]{0,40})'[\w-]*'/;

/** The octets of all sections are decoded together, since a character may be split between two. */
function joined(pieces: readonly Piece[]): string {
  if (pieces.every(({ isExtended }) => !isExtended)) return pieces.map(({ text }) => text).join('');
  const [first] = pieces;
  const [prefix = '', charset = ''] = (first?.isExtended && CHARSET.exec(first.text)) || [];
  const octets = pieces.map(({ text, isExtended }, index) => {
    const value = index === 0 ? text.slice(prefix.length) : text;
    return isExtended ? percentDecoded(value) : Buffer.from(value);
  });
  return decodeText(Buffer.concat(octets), charset);
}

/** A `%` that begins no octet is literal. */
function percentDecoded(text: string): Buffer {
  const octets = Buffer.from(text).toString('latin1');
  const decoded = octets.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(decoded, 'latin1');
}

/**
 * Each is matched where the scanner stands. They end at what isBlank says and at nothing else that looks blank
 * (U+00A0): the scanner would never pass it.
 */
const WORD = /[^\t-\r ;(]+/y;
const NAME = /[^\t-\r ;=("]+/y;
const GARBAGE = /[^\t-\r ;("]+/y;
const QUOTED = /"([^"\\]*(?:\\[^][^"\\]*)*)"?/y;
const BRACKETED = /<([^<>]{1,998})>/y;
/** A comment ends with its `)` only together with those within it. */
const COMMENT_MARK = /[()]|\\[^]/g;

class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text.slice(0, VALUE_CHARS_MAX);
  }

  /** The word before the first `;`, which may have white space and comments around its slash. */
  value(): { word: string; /** Nothing else stands before the `;`. */ isAlone: boolean } {
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

  /** What follows `=`; null when nothing does. */
  parameterValue(): string | null {
    this.#skipBlanks();
    if (this.#text[this.#at] !== '=') return null;
    this.#at += 1;
    this.#skipBlanks();
    const quoted = this.#take(QUOTED);
    if (quoted !== null) return quoted[1]?.replace(/\\([^])/g, '$1') ?? '';
    return this.#unquoted();
  }

  /** Parentheses within it, as in `filename=report(1).pdf`, belong to it. */
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

  /** White space and comments. */
  #skipBlanks(): void {
    for (; ; this.#at += 1) {
      const character = this.#text[this.#at];
      if (character === undefined) return;
      if (character === '(') this.#at = this.#commentEnd() - 1;
      else if (!isBlank(character)) return;
    }
  }

  /** The offset behind the comment that begins here; the end of the text if it does not end. */
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
