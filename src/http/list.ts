/** The shape of every list: `{"object": "list", "data": [...], "has_more": bool}`. */
import type { Page, PageOf } from '../store/page.ts';
import { isId } from '../store/ids.ts';
import type { Refusal } from '../core/refusals.ts';
import { refuseFields } from '../core/field-problems.ts';

export type ListAnswer<Row> = { object: 'list'; data: Row[]; has_more: boolean };

/**
 * A list whose statement asked for one row more than the page holds.
 * @param rows up to `limit + 1`
 */
export function listAnswer<Row>(rows: readonly Row[], limit: number): ListAnswer<Row> {
  return { object: 'list', data: rows.slice(0, limit), has_more: rows.length > limit };
}

/** A page of the store, each row turned into what it looks like on the wire. */
export function pageAnswer<Row, Wire>(
  { rows, hasMore }: PageOf<Row>,
  toWire: (row: Row) => Wire,
): ListAnswer<Wire> {
  return { object: 'list', data: rows.map(toWire), has_more: hasMore };
}

/** The page that `limit`, `after` and `before` ask for, or what is wrong with them. */
export function pageFrom(query: {
  limit: number;
  after?: string | undefined;
  before?: string | undefined;
}): Page | Refusal {
  const { limit, after = null, before = null } = query;
  const cursors = Object.entries({ after, before });
  const wrong = cursors.find(([, id]) => id !== null && !isId(id));
  if (wrong) return refuseFields([{ field: wrong[0], message: 'must be an id from this list' }]);
  if (after !== null && before !== null) {
    const message = 'cannot be used together with after; leave one of them out';
    return refuseFields([{ field: 'before', message }]);
  }
  return { limit, after, before };
}
