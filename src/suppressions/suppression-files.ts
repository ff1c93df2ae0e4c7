/**
 * Imports and exports a suppression list with bounded memory, whatever its size.
 *
 * Import: CSV (move-in/csv.ts) or JSON (move-in/json.ts), from our export or another service
 * (move-in/suppression-services.ts). Rows are stored in batches as they arrive, each batch in its own transaction.
 * Valid rows are added even if others are rejected. Committed rows remain when the rest does not arrive or cannot be
 * read. Importing the file again adds only the missing rows.
 *
 * Export: the next page is read after the client has consumed the last one, so a slow reader keeps neither memory nor
 * a transaction. Concurrent changes may be missing. No entry is repeated.
 */
import type { Scope } from '../core/scope.ts';
import type { SuppressionsMaximum } from '../accounts/limits/maximum-store.ts';
import type { Database, Queryable } from '../database/database.ts';
import {
  type ImportedBatch,
  type ImportedSuppression,
  importSuppressions,
  listSuppressions,
  type SuppressionFilter,
  type SuppressionReason,
} from './suppression-store.ts';
import { CSV_HEADER, csvRowOf } from '../move-in/csv.ts';
import { readEntries, type SourceEntry } from '../move-in/entries.ts';
import { type ImportFormat, LEFT_OUT, type LeftOut } from '../move-in/suppression-services.ts';

export type ImportResult = {
  format: ImportFormat | null;
  added: number;
  /** Includes repeated rows of the file. */
  alreadyThere: number;
  rejected: number;
  leftOut: Map<LeftOut, { rows: number; firstLine: number }>;
  errors: { line: number; item: number | null; message: string }[];
};

type ImportOptions = {
  /** Reason for entries that state none; null when the request gives none. */
  reason: SuppressionReason | null;
  /** Absent for an operator, who may add any number. */
  maximum?: SuppressionsMaximum | undefined;
};

type Transactions = Queryable & Pick<Database, 'transaction'>;

/** The file exceeds the limit on rows of an import. The rows before the limit are imported. */
export class TooManyRows extends Error {
  override readonly name = 'TooManyRows';
}

export const IMPORT_ROWS_MAX = 1_000_000;
const BATCH_ROWS = 2_000;
const ERRORS_MAX = 100;

const PAGE_ROWS = 5_000;

/**
 * Imports a file in any chunks.
 * @param result updated as rows are committed, so that it is valid when this throws
 * @throws MaximumReached, TooManyRows, UnusableFile, DatabaseUnavailable, errors of the stream
 */
export async function importFile(
  db: Transactions,
  scope: Scope,
  file: { pieces: AsyncIterable<Uint8Array>; result: ImportResult } & ImportOptions,
): Promise<void> {
  const { pieces, result, reason, maximum } = file;
  const batch = new ImportBatch(db, { scope, result, maximum });
  let rows = 0;
  for await (const { format, entries } of readEntries(pieces, reason)) {
    result.format = format ?? result.format;
    for (const entry of entries) {
      rows += 1;
      if (rows > IMPORT_ROWS_MAX) {
        await batch.commit();
        throw new TooManyRows(`line ${entry.line} is beyond ${IMPORT_ROWS_MAX} rows`);
      }
      addEntry(entry, { batch, result });
      if (batch.size >= BATCH_ROWS) await batch.commit();
    }
  }
  await batch.commit();
}

export function newImportResult(): ImportResult {
  return {
    format: null,
    added: 0,
    alreadyThere: 0,
    rejected: 0,
    leftOut: new Map(),
    errors: [],
  };
}

type EntryPosition = Pick<SourceEntry, 'line' | 'item'>;

function addEntry(entry: SourceEntry, to: { batch: ImportBatch; result: ImportResult }): void {
  const { read } = entry;
  if ('problem' in read) reject(to.result, entry, `${read.problem}.`);
  else if ('leftOut' in read) leaveOut(to.result, entry, read.leftOut);
  else to.batch.add(entry, read);
}

function reject(result: ImportResult, { line, item }: EntryPosition, message: string): void {
  result.rejected += 1;
  if (result.errors.length < ERRORS_MAX) result.errors.push({ line, item, message });
}

function leaveOut(result: ImportResult, { line }: EntryPosition, because: LeftOut): void {
  const counted = result.leftOut.get(because);
  if (counted === undefined) result.leftOut.set(because, { rows: 1, firstLine: line });
  else counted.rows += 1;
}

class ImportBatch {
  readonly #db: Transactions;
  readonly #scope: Scope;
  readonly #result: ImportResult;
  readonly #maximum: SuppressionsMaximum | undefined;
  #entries: ImportedSuppression[] = [];
  #positions: (EntryPosition & { endsByRule: boolean })[] = [];

  constructor(
    db: Transactions,
    {
      scope,
      result,
      maximum,
    }: { scope: Scope; result: ImportResult; maximum: SuppressionsMaximum | undefined },
  ) {
    this.#db = db;
    this.#scope = scope;
    this.#result = result;
    this.#maximum = maximum;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** @param entry.endsByRule when this entry has already expired, it is left out instead of rejected */
  add({ line, item }: EntryPosition, entry: ImportedSuppression & { endsByRule?: boolean }): void {
    const { endsByRule = false, ...suppression } = entry;
    this.#entries.push(suppression);
    this.#positions.push({ line, item, endsByRule });
  }

  #store(): Promise<ImportedBatch> {
    const maximum = this.#maximum;
    if (!maximum) return importSuppressions(this.#db, this.#scope, this.#entries);
    return this.#db.transaction(async (tx) => {
      const imported = await importSuppressions(tx, this.#scope, this.#entries);
      if (imported.added > 0) await maximum.check(tx, this.#scope, imported.added);
      return imported;
    });
  }

  async commit(): Promise<void> {
    if (this.size === 0) return;
    const { added, expired } = await this.#store();
    const result = this.#result;
    result.added += added;
    result.alreadyThere += this.size - added - expired.length;
    for (const index of expired) {
      const position = this.#positions[index] ?? { line: 0, item: null, endsByRule: false };
      if (position.endsByRule) leaveOut(result, position, 'expired');
      else reject(result, position, 'expires_at: is in the past.');
    }
    [this.#entries, this.#positions] = [[], []];
  }
}

export function importToWire(result: ImportResult) {
  const { format, added, alreadyThere, rejected, leftOut, errors } = result;
  return {
    object: 'suppression_import' as const,
    format,
    added,
    already_there: alreadyThere,
    rejected,
    left_out: Array.from(leftOut, ([because, { rows, firstLine }]) => ({
      because,
      rows,
      first_line: firstLine,
      message: LEFT_OUT[because],
    })),
    errors,
  };
}

export async function* exportCsv(
  db: Queryable,
  scope: Scope,
  filter: SuppressionFilter,
): AsyncGenerator<string> {
  let after: string | null = null;
  let piece = CSV_HEADER;
  for (;;) {
    const page = { limit: PAGE_ROWS, after, before: null };
    const { rows, hasMore } = await listSuppressions(db, scope, { page, filter });
    yield piece + rows.map(csvRowOf).join('');
    piece = '';
    after = rows.at(-1)?.address ?? null;
    if (!hasMore) return;
  }
}
