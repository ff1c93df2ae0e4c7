/** Pages of lists: their parameters, cursors and responses. */
import { badFields } from './errors.ts';
import { isId } from '../database/ids.ts';
import type { Page, PageResult } from '../database/page.ts';

type ListResponse<Row> = { object: 'list'; data: Row[]; has_more: boolean };

/**
 * Returns a page of a statement that reads one row more than the page has.
 * @param rows up to `limit + 1`
 */
export function listResponse<Row>(rows: readonly Row[], limit: number): ListResponse<Row> {
  return { object: 'list', data: rows.slice(0, limit), has_more: rows.length > limit };
}

export function pageResponse<Row, Wire>(
  { rows, hasMore }: PageResult<Row>,
  toWire: (row: Row) => Wire,
): ListResponse<Wire> {
  return { object: 'list', data: rows.map(toWire), has_more: hasMore };
}

/**
 * Reads which page `limit`, `after` and `before` select.
 * @throws BadRequest
 */
export function readPage(query: {
  limit: number;
  after?: string | undefined;
  before?: string | undefined;
}): Page {
  const { limit, after = null, before = null } = query;
  const cursors = Object.entries({ after, before });
  const wrong = cursors.find(([, id]) => id !== null && !isId(id));
  if (wrong) throw badFields([{ field: wrong[0], message: 'must be an id from this list' }]);
  if (after !== null && before !== null) {
    const message = 'cannot be used together with after; leave one of them out';
    throw badFields([{ field: 'before', message }]);
  }
  return { limit, after, before };
}
