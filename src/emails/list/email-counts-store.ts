/** Counts the emails of a list by status, among those that one search reads (email-list-store.ts). */
import type { Scope } from '../../core/scope.ts';
import { emailStatus, type Status } from '../../core/statuses.ts';
import type { Queryable } from '../../database/database.ts';
import { countSql, type EmailFilter, filterValues, stepsOf } from './email-list-store.ts';

export type EmailCounts = {
  total: number;
  statuses: Map<Status, number>;
  /** The last searched email, if the search stopped before the end of the list. */
  scannedUntil: string | null;
};

type CountRow = { worst: number; open: Status[] | null; count: number };

/** Rows of one step: combinations of open statuses with a worst outcome are few. */
const ROWS_MAX = 1_000;

export async function countEmails(
  db: Queryable,
  scope: Scope,
  filter: EmailFilter,
): Promise<EmailCounts> {
  const page = { limit: ROWS_MAX, after: null, before: null };
  const counts: EmailCounts = { total: 0, statuses: new Map(), scannedUntil: null };
  for await (const { scan, values, findStop } of stepsOf(db, scope, { page, filter })) {
    const parameters = [...values, ...filterValues(filter, ROWS_MAX)];
    for (const row of await db.query<CountRow>(countSql(scan, filter), parameters)) {
      const status = emailStatus(new Set(row.open ?? []), row.worst);
      counts.total += row.count;
      counts.statuses.set(status, (counts.statuses.get(status) ?? 0) + row.count);
    }
    counts.scannedUntil = await findStop();
    if (counts.scannedUntil !== null) break;
  }
  return counts;
}
