/**
 * Suppressions as rows of CSV (RFC 4180): the import reads the files of the export.
 *
 * Reads a stream of bytes: quoted cells, LF or CRLF, a byte order mark, and commas, semicolons or tabs as separators,
 * because spreadsheets of many locales write these. Keeps one row in memory. A malformed row does not affect others:
 * a quote without its end stops after 16 KB, and reading continues on the next line.
 *
 * A cell that a spreadsheet would evaluate as a formula has `'` as prefix, which reading removes. The first row may
 * name the columns, in any order. Unknown columns are ignored. Without names, the columns are address, reason,
 * created_at, expires_at.
 */
import { formatCsvRow } from '../lib/csv-row.ts';
import { explainAddress, parseAddress } from '../mail/address.ts';
import {
  type ImportedSuppression,
  type Suppression,
  SUPPRESSION_REASONS,
  type SuppressionReason,
} from '../suppressions/suppression-store.ts';

export type CsvRow = {
  line: number;
} & ({ cells: readonly string[] } | { problem: string });

const ROW_MAX_LENGTH = 16 * 1024;

const UNCLOSED = 'A quote is not closed';
const TOO_LONG = `The row is longer than ${ROW_MAX_LENGTH / 1024} KB`;
const AFTER_QUOTE = 'Text follows a closing quote; a quote inside of quotes must be doubled';

/** An incomplete row is parsed again once this many more characters have arrived. */
const READ_AT_ONCE_LENGTH = 16 * 1024;

/** Yields the rows of the file in groups. Empty lines are skipped. */
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
  /** True within a line that is too long. */
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

  /**
   * Parses the row that begins at `at`.
   * @returns the offset of the next row, or null when the row is incomplete
   */
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

/** Returns null when the line is incomplete. */
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

/** Parses a row with quotes, which may contain line breaks. */
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
      // A quoted cell may continue in the next piece, up to the maximum row length.
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

export const CSV_HEADER = 'address,reason,source_email_id,created_at,expires_at\r\n';

export function csvRowOf(entry: Suppression): string {
  const times = [entry.createdAt.toISOString(), entry.expiresAt?.toISOString() ?? ''];
  return formatCsvRow([entry.address, entry.reason, entry.sourceEmailId ?? '', ...times]);
}

const ESCAPED = /^'+[=+\-@\t\r]/;

/** The text of a cell without spaces around it and without the prefix of a formula. */
export function readCell(cell: string | undefined): string {
  const text = (cell ?? '').trim();
  return ESCAPED.test(text) ? text.slice(1) : text;
}

type Field = 'address' | 'reason' | 'created_at' | 'expires_at';

export type Columns = Readonly<Partial<Record<Field, number>>>;

export const COLUMNS_WITHOUT_NAMES: Columns = {
  address: 0,
  reason: 1,
  created_at: 2,
  expires_at: 3,
};

const NAMES: Readonly<Record<string, Field>> = {
  address: 'address',
  email: 'address',
  email_address: 'address',
  reason: 'reason',
  created_at: 'created_at',
  expires_at: 'expires_at',
};

/** Returns null when the first row contains data. */
export function columnsOf(cells: readonly string[]): Columns | null {
  const columns: Partial<Record<Field, number>> = {};
  for (const [index, cell] of cells.entries()) {
    const name = cell.trim().toLowerCase().replaceAll(/[ -]/g, '_');
    const field = Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
    if (field !== undefined) columns[field] ??= index;
  }
  return columns.address === undefined ? null : columns;
}

/**
 * Returns the suppression of a row, or the problem as a sentence without its period.
 * @param defaultReason reason of a row that has none
 */
export function readRow(
  cells: readonly string[],
  columns: Columns,
  defaultReason: SuppressionReason = 'manual',
): ImportedSuppression | { problem: string } {
  const cell = (field: Field) => {
    const index = columns[field];
    return index === undefined ? '' : readCell(cells[index]);
  };
  const text = cell('address');
  if (text.includes('\u{fffd}')) return { problem: 'The address is not in UTF-8' };
  const address = parseAddress(text);
  if (address === null) return { problem: explainAddress(text) };
  const reason =
    suppressionReasonOf(cell('reason')) ?? (cell('reason') === '' ? defaultReason : null);
  if (reason === null) {
    return { problem: `${quoted(cell('reason'))} is not one of ${SUPPRESSION_REASONS.join(', ')}` };
  }
  const createdAt = timeOf(cell('created_at'));
  const expiresAt = timeOf(cell('expires_at'));
  if (createdAt === 'wrong') return { problem: invalidTime('created_at', cell('created_at')) };
  if (expiresAt === 'wrong') return { problem: invalidTime('expires_at', cell('expires_at')) };
  return { address, reason, createdAt, expiresAt };
}

function suppressionReasonOf(text: string): SuppressionReason | null {
  const wanted = text.toLowerCase();
  return SUPPRESSION_REASONS.find((reason) => reason === wanted) ?? null;
}

/** ISO 8601: a date, or a date and a time with or without an offset from UTC. */
const TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i;

const FIRST_TIME = new Date('0001-01-01T00:00:00Z');
const LAST_TIME = new Date('9999-12-31T23:59:59.999Z');

/** Returns null for empty text. A time without an offset is in UTC. */
export function timeOf(text: string): Date | 'wrong' | null {
  if (text === '') return null;
  const [, day, clock = '00:00', zone = 'Z'] = TIME.exec(text) ?? [];
  if (day === undefined) return 'wrong';
  const isZ = zone.toUpperCase() === 'Z';
  const offset = isZ ? 'Z' : `${zone.slice(0, 3)}:${zone.slice(3).replace(':', '') || '00'}`;
  const time = new Date(`${day}T${clock}${offset}`);
  // The database has no year 0, and ISO 8601 uses four digits for a year.
  const isOutside = !(time >= FIRST_TIME && time <= LAST_TIME);
  return isOutside ? 'wrong' : time;
}

export function invalidTime(field: string, text: string): string {
  return `${field}: ${quoted(text)} is not a time in ISO 8601, like 2026-11-21T08:30:00Z`;
}

export function quoted(text: string): string {
  return JSON.stringify(text.length <= 40 ? text : `${text.slice(0, 40)}…`);
}
