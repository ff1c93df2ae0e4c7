/** One page of a list that is sorted newest first, by cursor. Its cost does not depend on the position. */

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
