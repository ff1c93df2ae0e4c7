/**
 * A suppression list as CSV, piece by piece: a page is read when the one before it was taken, so
 * that a slow reader costs neither memory nor an open transaction. What changes meanwhile is
 * there or not; nothing comes twice.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { listSuppressions, type SuppressionFilter } from '../store/suppressions.ts';
import { CSV_HEADER, csvRowOf } from './csv-rows.ts';

const PAGE_ROWS = 5_000;

/**
 * @param list.onProgress after each page: rows so far
 */
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
