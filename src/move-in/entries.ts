/**
 * The entries of a suppression file of any known kind. The first bytes decide between CSV and JSON. The names of the
 * first entry decide which service the file comes from.
 *
 * Other files are refused as a whole, before anything is stored: encodings other than UTF-8, archives, and lists
 * without a known address column. A file whose entries may have two reasons needs the `reason` option.
 * suppression-services.ts reads the entries.
 */
import type { SuppressionReason } from '../suppressions/suppression-store.ts';
import {
  columnsOf,
  type Columns,
  COLUMNS_WITHOUT_NAMES,
  type CsvRow,
  readCell,
  readCsv,
  readRow,
} from './csv.ts';
import { type JsonRecord, NotJson, readJson } from './json.ts';
import {
  fieldName,
  type Fields,
  fieldsOfJson,
  FORMAT_NAMES,
  formatOf,
  holdsEntries,
  IMPORT_FORMATS,
  type ImportFormat,
  type ReadEntry,
  recognise,
} from './suppression-services.ts';

export type SourceEntry = {
  line: number;
  /** Its position among the entries of a JSON file; null for CSV. */
  item: number | null;
  read: ReadEntry;
};

type Entries = { format: ImportFormat | null; entries: SourceEntry[] };

/** The file is refused as a whole. The message is a sentence without its period. */
export class UnusableFile extends Error {
  override readonly name = 'UnusableFile';
}

export class ReasonNeeded extends UnusableFile {
  readonly reasons: readonly SuppressionReason[];

  constructor(format: ImportFormat, reasons: readonly SuppressionReason[]) {
    const lists = reasons.join(' or ');
    super(
      `The file may be a list of ${FORMAT_NAMES[format]} for the reason ${lists}, which have the ` +
        'same columns',
    );
    this.reasons = reasons;
  }
}

/**
 * Yields the entries in the order of the file, in groups.
 * @param reason reason of entries that state none; null when not given
 * @throws UnusableFile, errors of the stream
 */
export async function* readEntries(
  pieces: AsyncIterable<Uint8Array>,
  reason: SuppressionReason | null,
): AsyncGenerator<Entries> {
  const { isJson, text } = await detectKind(pieces);
  yield* isJson ? jsonEntries(text, reason) : csvEntries(text, reason);
}

const NO_TEXT = 'it has NUL bytes, so it is not text in UTF-8; save it as CSV in UTF-8';
const UTF_16 = 'it is in UTF-16; save it as CSV in UTF-8';
const ARCHIVE = 'it is compressed; unpack it first';

/** First bytes of files that are not text in UTF-8. A workbook of a spreadsheet is a ZIP archive. */
const SIGNATURES: readonly (readonly [readonly number[], string])[] = [
  [[0xff, 0xfe], UTF_16],
  [[0xfe, 0xff], UTF_16],
  [[0x1f, 0x8b], ARCHIVE],
  [[0x50, 0x4b, 0x03, 0x04], ARCHIVE],
];
const SPACE = new Set([0x20, 0x09, 0x0a, 0x0d]);
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const HEAD_BYTES_MAX = 64 * 1024;

/** Reads up to the first character, which distinguishes JSON from CSV. */
async function detectKind(
  pieces: AsyncIterable<Uint8Array>,
): Promise<{ isJson: boolean; text: AsyncIterable<Uint8Array> }> {
  const rest = pieces[Symbol.asyncIterator]();
  let head = Buffer.alloc(0);
  let first: number | undefined;
  while (first === undefined && head.length < HEAD_BYTES_MAX) {
    const next = await rest.next();
    if (next.done === true) break;
    head = Buffer.concat([head, next.value]);
    first = head.length < 4 ? undefined : firstCharacter(head);
  }
  first ??= firstCharacter(head);
  const isJson = first === 0x7b || first === 0x5b;
  return { isJson, text: requireText(head, rest) };
}

function firstCharacter(head: Uint8Array): number | undefined {
  const isMarked = BYTE_ORDER_MARK.every((byte, index) => head[index] === byte);
  return head.subarray(isMarked ? 3 : 0).find((byte) => !SPACE.has(byte));
}

async function* requireText(
  head: Buffer,
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    const signature = SIGNATURES.find(([bytes]) => bytes.every((byte, at) => head[at] === byte));
    if (signature !== undefined) throw unreadable(signature[1]);
    let next: IteratorResult<Uint8Array> = { done: false, value: head };
    while (next.done !== true) {
      if (next.value.includes(0)) throw unreadable(NO_TEXT);
      yield next.value;
      next = await rest.next();
    }
  } finally {
    await rest.return?.();
  }
}

function unreadable(why: string): UnusableFile {
  return new UnusableFile(`The file cannot be read: ${why}`);
}

function unknownFile(): UnusableFile {
  const services = IMPORT_FORMATS.slice(1).map((format) => FORMAT_NAMES[format]);
  return new UnusableFile(
    'The file is not a known list of suppressions: the first row of CSV must name a column address or ' +
      'email, or begin with an address; the lists of other services that are recognised, as CSV or JSON, ' +
      `are those of ${services.join(', ')}`,
  );
}

type EntryReader = { format: ImportFormat; read: (fields: Fields) => ReadEntry };

function requireReader(fields: Fields | null, reason: SuppressionReason | null): EntryReader {
  const found = fields && recognise(fields, { reason });
  if (found === null) throw unknownFile();
  if ('reasons' in found) throw new ReasonNeeded(found.format, found.reasons);
  return found;
}

const NOT_AN_ENTRY = 'The entry is neither an object nor an address';

async function* jsonEntries(
  text: AsyncIterable<Uint8Array>,
  reason: SuppressionReason | null,
): AsyncGenerator<Entries> {
  let reader: EntryReader | null = null;
  const readRecord = (record: JsonRecord): ReadEntry => {
    if ('problem' in record) return { problem: record.problem };
    const fields = fieldsOfJson(record.value);
    reader ??= requireReader(fields, reason);
    return fields === null ? { problem: NOT_AN_ENTRY } : reader.read(fields);
  };
  try {
    for await (const records of readJson(text, holdsEntries)) {
      const entries = records.map((record) => {
        const { line, item } = record;
        return { line, item, read: readRecord(record) };
      });
      yield { format: formatIn(reader), entries };
    }
  } catch (error) {
    throw error instanceof NotJson ? new UnusableFile(error.message) : error;
  }
}

function formatIn(reader: EntryReader | null): ImportFormat | null {
  return reader?.format ?? null;
}

async function* csvEntries(
  text: AsyncIterable<Uint8Array>,
  reason: SuppressionReason | null,
): AsyncGenerator<Entries> {
  const table = new CsvEntries(reason);
  for await (const rows of readCsv(text)) {
    const entries: SourceEntry[] = [];
    for (const row of rows) {
      const read = table.read(row);
      if (read !== null) entries.push({ line: row.line, item: null, read });
    }
    yield { format: table.format, entries };
  }
}

/** Columns of Amazon SES's bulk import, which has no header. */
const SES_NAMES = ['emailaddress', 'reason'];

class CsvEntries {
  readonly #reason: SuppressionReason | null;
  #isFirst = true;
  #names: readonly string[] | null = null;
  /** Null when the names of our own columns are written in another way. */
  #columns: Columns | null = COLUMNS_WITHOUT_NAMES;
  #reader: EntryReader | 'own' | null = null;
  format: ImportFormat | null = null;

  constructor(reason: SuppressionReason | null) {
    this.#reason = reason;
  }

  /** Returns null for the row with the names of the columns. */
  read(row: CsvRow): ReadEntry | null {
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if ('problem' in row) return row;
    if (isFirst && this.#isHeader(row.cells)) return null;
    this.#reader ??= this.#readerOf(row.cells);
    const reader = this.#reader;
    if (reader !== 'own') return reader.read(fieldsOf(this.#names ?? SES_NAMES, row.cells));
    return readRow(row.cells, this.#columns ?? COLUMNS_WITHOUT_NAMES, this.#reason ?? 'manual');
  }

  #isHeader(cells: readonly string[]): boolean {
    const names = cells.map(fieldName);
    const columns = columnsOf(cells);
    const format = formatOf(fieldsOf(names, []));
    if (columns === null && format === null) {
      if (!cells[0]?.includes('@')) throw unknownFile();
      return false;
    }
    this.#names = names;
    this.#columns = columns;
    this.format = format ?? 'letterhaus';
    return true;
  }

  #readerOf(cells: readonly string[]): EntryReader | 'own' {
    const fields = fieldsOf(this.#names ?? SES_NAMES, cells);
    const format = formatOf(fields) ?? 'letterhaus';
    this.format = format;
    const isOwn = format === 'letterhaus' && this.#columns !== null;
    return isOwn ? 'own' : requireReader(fields, this.#reason);
  }
}

/** The first of columns with the same name counts. */
function fieldsOf(names: readonly string[], cells: readonly string[]): Fields {
  const fields = new Map<string, string>();
  for (const [index, name] of names.entries()) {
    if (!fields.has(name)) fields.set(name, readCell(cells[index]));
  }
  return fields;
}
