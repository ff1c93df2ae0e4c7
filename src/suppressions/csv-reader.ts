/**
 * Reads CSV (RFC 4180) from bytes as they come: quoted cells, LF or CRLF, a byte order mark, commas or
 * (as spreadsheets in much of Europe write it) semicolons or tabs. Holds one row, however long the
 * file is.
 *
 * Promise: a broken row costs itself and no other. A quote that is never closed is given up after
 * 16 KB, and reading goes on in the next line.
 */

export type CsvRow = {
  /** Where it begins; the first line is 1. */
  line: number;
} & ({ cells: readonly string[] } | { problem: string });

const ROW_MAX_LENGTH = 16 * 1024;

const UNCLOSED = 'A quote is opened and never closed';
const TOO_LONG = `The row is longer than ${ROW_MAX_LENGTH / 1024} KB`;
const AFTER_QUOTE = 'Something follows a closing quote; a quote inside of quotes is written twice';

/** A row that is not whole yet is read anew with what follows it: not for every octet that comes. */
const READ_AT_ONCE_LENGTH = 16 * 1024;

/** The rows of the file in groups. Empty lines are no rows. */
export async function* readCsv(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<CsvRow[]> {
  const utf8 = new TextDecoder('utf-8');
  const reader = new Reader();
  let text = '';
  for await (const piece of pieces) {
    text += utf8.decode(piece, { stream: true });
    if (text.length < READ_AT_ONCE_LENGTH) continue;
    yield reader.read(text, { isEnd: false });
    text = '';
  }
  yield reader.read(text + utf8.decode(), { isEnd: true });
}

class Reader {
  #text = '';
  #line = 1;
  #separator: string | null = null;
  /** In the middle of a line that is too long. */
  #isSkipping = false;

  read(text: string, { isEnd }: { isEnd: boolean }): CsvRow[] {
    this.#text += text;
    const rows: CsvRow[] = [];
    let at = 0;
    for (;;) {
      const next = this.#row(at, isEnd, rows);
      if (next === null) break;
      at = next;
    }
    this.#text = this.#text.slice(at);
    return rows;
  }

  /** Takes the row that begins at `at`. @returns where the next begins; null: not here yet */
  #row(at: number, isEnd: boolean, rows: CsvRow[]): number | null {
    const text = this.#text;
    const lineEnd = endOfLine(text, at, isEnd);
    if (lineEnd === null) return this.#longLine(at, rows);
    if (at === text.length) return null;
    const nextLine = Math.min(lineEnd + 1, text.length);
    const line = this.#line;
    if (this.#isSkipping || lineEnd - at > ROW_MAX_LENGTH) {
      if (!this.#isSkipping) rows.push({ line, problem: TOO_LONG });
      this.#isSkipping = false;
      this.#line += 1;
      return nextLine;
    }
    const plain = withoutReturn(text.slice(at, lineEnd));
    this.#separator ??= separatorOf(plain);
    if (!plain.includes('"')) {
      if (plain.trim() !== '') rows.push({ line, cells: plain.split(this.#separator) });
      this.#line += 1;
      return nextLine;
    }
    const read = readQuoted(text, at, { separator: this.#separator, isEnd });
    if (read === 'more') return null;
    if ('problem' in read) {
      rows.push({ line, problem: read.problem });
      this.#line += 1;
      return nextLine;
    }
    rows.push({ line, cells: read.cells });
    this.#line += read.lines;
    return read.next;
  }

  #longLine(at: number, rows: CsvRow[]): number | null {
    if (this.#isSkipping) return this.#text.length > at ? this.#text.length : null;
    if (this.#text.length - at <= ROW_MAX_LENGTH) return null;
    rows.push({ line: this.#line, problem: TOO_LONG });
    this.#isSkipping = true;
    return this.#text.length;
  }
}

/** Where the line that begins at `at` has its LF, or the text its end; null: not here yet. */
function endOfLine(text: string, at: number, isEnd: boolean): number | null {
  const found = text.indexOf('\n', at);
  if (found !== -1) return found;
  return isEnd ? text.length : null;
}

function withoutReturn(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}

function separatorOf(firstLine: string): string {
  const unquoted = firstLine.replaceAll(/"[^"]*"?/g, '');
  return [',', ';', '\t'].find((separator) => unquoted.includes(separator)) ?? ',';
}

type Quoted = { cells: string[]; next: number; lines: number };

/** A row with quotes in it, which may have line breaks between them. */
function readQuoted(
  text: string,
  from: number,
  { separator, isEnd }: { separator: string; isEnd: boolean },
): Quoted | { problem: string } | 'more' {
  const cells: string[] = [];
  let lines = 1;
  let at = from;
  for (;;) {
    const isQuoted = text[at] === '"';
    const end = isQuoted ? closingQuote(text, at, from) : endOfPlain(text, at, separator);
    if (end === -1) {
      // What a quote holds may go on in the next piece, up to a bound.
      if (isEnd || text.length - from > ROW_MAX_LENGTH) return { problem: UNCLOSED };
      return 'more';
    }
    if (isQuoted) {
      const value = text.slice(at + 1, end).replaceAll('""', '"');
      lines += value.split('\n').length - 1;
      cells.push(value);
      at = end + 1;
    } else {
      cells.push(text.slice(at, end));
      at = end;
    }
    if (text[at] === separator) {
      at += 1;
      continue;
    }
    if (text[at] === '\r' && (text[at + 1] ?? '\n') === '\n') at += 1;
    if (at >= text.length) return isEnd ? { cells, next: text.length, lines } : 'more';
    if (text[at] === '\n') return { cells, next: at + 1, lines };
    return { problem: AFTER_QUOTE };
  }
}

/** The quote that ends the cell which begins with one at `at`; -1: there is none within bounds. */
function closingQuote(text: string, at: number, rowStart: number): number {
  let end = text.indexOf('"', at + 1);
  while (end !== -1 && text[end + 1] === '"') end = text.indexOf('"', end + 2);
  return end - rowStart > ROW_MAX_LENGTH ? -1 : end;
}

function endOfPlain(text: string, at: number, separator: string): number {
  let end = at;
  while (end < text.length && text[end] !== separator && text[end] !== '\n') {
    if (text[end] === '\r' && (text[end + 1] ?? '\n') === '\n') break;
    end += 1;
  }
  return end;
}
