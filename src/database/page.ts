/**
 * One page of a list that is sorted newest first, by cursor. Its cost does not depend on the position. A list of a
 * period begins at the ids of that period, so that an old one does not read everything newer first.
 */
import type { Queryable } from './database.ts';
import { firstUuidAt } from './ids.ts';

export type Page = {
  limit: number;
  /** Only rows older than this id. Excludes `before`. */
  after: string | null;
  /** Only rows newer than this id: the page that ends directly before it. */
  before: string | null;
};

export type PageResult<Row> = {
  rows: Row[];
  hasMore: boolean;
};

/**
 * Cuts the rows of a statement to the page.
 * @param found up to `limit + 1` rows: newest first, or oldest first when the page has `before`
 */
export function cutToPage<Row>(found: readonly Row[], page: Page): PageResult<Row> {
  const rows = found.slice(0, page.limit);
  return {
    rows: page.before === null ? rows : rows.toReversed(),
    hasMore: found.length > page.limit,
  };
}

/** Both excluded; null: unlimited. */
export type IdRange = { olderThan: string | null; newerThan: string | null };

/** `from` is inclusive, `to` exclusive; null: unlimited. */
export type Period = { from: Date | null; to: Date | null };

/**
 * Ids have the process's time, `created_at` the database's. A row is also stored a moment after its id was made. The
 * rows of this margin are read in vain, so it is short.
 */
const CLOCK_SLACK_MS = 5 * 60_000;

/**
 * Returns the ids of a page within a period. A time converts to an id only approximately, so a list compares
 * `created_at` too. The skew of a test clock is added.
 */
export async function findIdRange(
  db: Queryable,
  { after, before }: Pick<Page, 'after' | 'before'>,
  { from, to }: Period,
): Promise<IdRange> {
  if (from === null && to === null) return { olderThan: after, newerThan: before };
  const [clock] = await db.query<{ ms: number }>(
    'select extract(epoch from skew)::float8 * 1000 as ms from clock',
  );
  const skewMs = clock?.ms ?? 0;
  const earlierMs = CLOCK_SLACK_MS + Math.max(0, skewMs);
  const laterMs = CLOCK_SLACK_MS - Math.min(0, skewMs);
  const lowest = from && firstUuidAt(from.getTime() - earlierMs);
  const highest = to && firstUuidAt(to.getTime() + laterMs);
  return { olderThan: least(after, highest), newerThan: greatest(before, lowest) };
}

export function least(a: string | null, b: string | null): string | null {
  return a !== null && (b === null || a < b) ? a : b;
}

export function greatest(a: string | null, b: string | null): string | null {
  return a !== null && (b === null || a > b) ? a : b;
}
