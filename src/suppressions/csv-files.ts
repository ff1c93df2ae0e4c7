/**
 * CSV files into and out of a suppression list, with bounded memory for any size.
 *
 * Import: read as it arrives and stored in batches, each in its own transaction. A valid row is added
 * even if others are rejected. Committed rows remain when the rest does not arrive; importing the file
 * again adds only the missing rows.
 *
 * Export: a page is read after the previous one was consumed, so that a slow reader holds neither memory
 * nor an open transaction. Concurrent changes may or may not be included; no entry is repeated.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import {
  type ImportedSuppression,
  importSuppressions,
  listSuppressions,
  type SuppressionFilter,
} from '../store/suppressions.ts';
import {
  type CsvRow,
  readCsv,
  type Columns,
  COLUMNS_WITHOUT_NAMES,
  columnsOf,
  readRow,
  CSV_HEADER,
  csvRowOf,
} from './csv.ts';

export type ImportResult = {
  added: number;
  /** Includes repeated rows of the file. */
  alreadyThere: number;
  rejected: number;
  /** The first rejected rows. */
  errors: { line: number; message: string }[];
};

type ImportOptions = {
  /** Called after each batch. */
  onProgress?: (soFar: ImportResult) => void;
};

/** The file has more rows than one import may have; the rows before are imported. */
export class TooManyRows extends Error {
  override readonly name = 'TooManyRows';
}

export const IMPORT_ROWS_MAX = 1_000_000;
const BATCH_ROWS = 2_000;
const ERRORS_MAX = 100;

/**
 * Imports a file in any chunks.
 * @param result updated as rows are committed, so that it is valid when this throws
 * @throws TooManyRows, DatabaseUnavailable, errors of the stream
 */
export async function importCsv(
  db: Queryable,
  scope: Scope,
  file: { pieces: AsyncIterable<Uint8Array>; result: ImportResult } & ImportOptions,
): Promise<void> {
  const { pieces, result, onProgress } = file;
  const batch = new Batch(db, scope, result);
  let columns: Columns | null = null;
  let rows = 0;
  for await (const piece of readCsv(pieces)) {
    const named: Columns | null = columns === null ? namesIn(piece) : null;
    if (piece.length > 0) columns ??= named ?? COLUMNS_WITHOUT_NAMES;
    for (const row of named === null ? piece : piece.slice(1)) {
      rows += 1;
      if (rows > IMPORT_ROWS_MAX) {
        await batch.commit();
        throw new TooManyRows(`line ${row.line} is beyond ${IMPORT_ROWS_MAX} rows`);
      }
      take(row, columns ?? COLUMNS_WITHOUT_NAMES, { batch, result });
      if (batch.size < BATCH_ROWS) continue;
      await batch.commit();
      onProgress?.(result);
    }
  }
  await batch.commit();
}

/** The columns that the first row names; null: it is a data row. */
function namesIn([first]: readonly CsvRow[]): Columns | null {
  return first !== undefined && 'cells' in first ? columnsOf(first.cells) : null;
}

export function newImportResult(): ImportResult {
  return { added: 0, alreadyThere: 0, rejected: 0, errors: [] };
}

function take(
  row: CsvRow,
  columns: Columns,
  { batch, result }: { batch: Batch; result: ImportResult },
): void {
  const read = 'cells' in row ? readRow(row.cells, columns) : row;
  if ('problem' in read) reject(result, row.line, `${read.problem}.`);
  else batch.add(row.line, read);
}

function reject(result: ImportResult, line: number, message: string): void {
  result.rejected += 1;
  if (result.errors.length < ERRORS_MAX) result.errors.push({ line, message });
}

/** Rows that are committed together. */
class Batch {
  readonly #db: Queryable;
  readonly #scope: Scope;
  readonly #result: ImportResult;
  #entries: ImportedSuppression[] = [];
  #lines: number[] = [];

  constructor(db: Queryable, scope: Scope, result: ImportResult) {
    this.#db = db;
    this.#scope = scope;
    this.#result = result;
  }

  get size(): number {
    return this.#entries.length;
  }

  add(line: number, entry: ImportedSuppression): void {
    this.#entries.push(entry);
    this.#lines.push(line);
  }

  async commit(): Promise<void> {
    if (this.size === 0) return;
    const { added, expired } = await importSuppressions(this.#db, this.#scope, this.#entries);
    const result = this.#result;
    result.added += added;
    result.alreadyThere += this.size - added - expired.length;
    for (const index of expired) {
      reject(result, this.#lines[index] ?? 0, 'expires_at: is in the past.');
    }
    [this.#entries, this.#lines] = [[], []];
  }
}

/** As JSON, for the API and the command line. */
export function presentImport({ added, alreadyThere, rejected, errors }: ImportResult) {
  return {
    object: 'suppression_import' as const,
    added,
    already_there: alreadyThere,
    rejected,
    errors,
  };
}

const PAGE_ROWS = 5_000;

/** @param list.onProgress called after each page with the number of rows so far */
export async function* exportCsv(
  db: Queryable,
  scope: Scope,
  list: { filter: SuppressionFilter; onProgress?: (rows: number) => void },
): AsyncGenerator<string> {
  let after: string | null = null;
  let count = 0;
  let piece = CSV_HEADER;
  for (;;) {
    const page = { limit: PAGE_ROWS, after, before: null };
    const { rows, hasMore } = await listSuppressions(db, scope, { page, filter: list.filter });
    yield piece + rows.map(csvRowOf).join('');
    piece = '';
    count += rows.length;
    list.onProgress?.(count);
    after = rows.at(-1)?.address ?? null;
    if (!hasMore) return;
  }
}
