/** One page of a list that is sorted newest first, by cursor: lists stay flat however long they are. */

export type Page = {
  /** Rows at most. */
  limit: number;
  /** Only what is older than this id. Not together with `before`. */
  after: string | null;
  /** Only what is newer than this id: the page that ends just before it. */
  before: string | null;
};

export type PageOf<Row> = {
  /** Newest first. */
  rows: Row[];
  /** Whether there is more in the direction of the cursor. */
  hasMore: boolean;
};

/**
 * Cuts what a statement found to the page.
 * @param found up to `limit + 1` rows: newest first, or oldest first when the page has `before`
 */
export function pageOf<Row>(found: readonly Row[], page: Page): PageOf<Row> {
  const rows = found.slice(0, page.limit);
  return {
    rows: page.before === null ? rows : rows.toReversed(),
    hasMore: found.length > page.limit,
  };
}
