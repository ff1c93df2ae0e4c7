/**
 * The history of suppressions: additions and removals, read by address. Rows are kept for 400 days, up to a limit for
 * each project and environment. suppression-store.ts writes them (`recordHistorySql`).
 */
import type { Environment, Scope } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import type { Queryable } from '../database/database.ts';
import type { ChangedBy, SuppressionReason } from './suppression-store.ts';
import { batchDelete } from '../database/expiry.ts';

export type HistoryEntry = {
  action: 'added' | 'removed';
  reason: SuppressionReason;
  sourceEmailId: string | null;
  at: Date;
  by: ChangedBy;
};

const LIST_HISTORY = `
select action, reason, source_email_id as "sourceEmailId", at, by from suppression_history
 where project_id = $1 and environment = $2 and address_key = $3
 order by at desc
 limit $4`;

export function listHistory(
  db: Queryable,
  scope: Scope,
  { address, limit }: { address: string; limit: number },
): Promise<HistoryEntry[]> {
  return db.query<HistoryEntry>(LIST_HISTORY, [
    scope.projectId,
    scope.environment,
    addressKey(address),
    limit,
  ]);
}

export function historyEntryToWire(entry: HistoryEntry) {
  return {
    action: entry.action,
    reason: entry.reason,
    source_email_id: entry.sourceEmailId,
    at: entry.at.toISOString(),
    by: entry.by,
  };
}

export const deleteOldHistory = batchDelete(
  'suppression_history',
  "at <= app_now() - interval '400 days' order by at",
);

const FIND_LONG = `
select suppression_history.project_id as "projectId", suppression_history.environment
  from projects
  join suppression_history on suppression_history.project_id = projects.id
 group by 1, 2 having count(*) > $1`;

// Keeps a recipient's rows of the last day, because removeSuppression counts them for its daily limit.
const SHORTEN = `
with beyond as materialized (
  select at from suppression_history
   where project_id = $1 and environment = $2 order by at desc offset $3 limit 1
)
delete from suppression_history where ctid = any(array(
  select suppression_history.ctid from suppression_history
   where suppression_history.project_id = $1 and suppression_history.environment = $2
     and suppression_history.at <= (select at from beyond)
     and (suppression_history.by <> 'recipient' or suppression_history.at < app_now() - interval '1 day')
   limit $4)) returning 1`;

/**
 * Shortens histories to their newest rows. It reads all of them, so maintenance runs it hourly.
 * @returns the number of deleted rows
 */
export async function shortenHistories(
  db: Queryable,
  { rowsMax, batch }: { rowsMax: number; batch: number },
): Promise<number> {
  let deleted = 0;
  for (const { projectId, environment } of await db.query<LongHistory>(FIND_LONG, [rowsMax])) {
    for (let last = batch; last === batch; deleted += last) {
      last = (await db.query(SHORTEN, [projectId, environment, rowsMax, batch])).length;
    }
  }
  return deleted;
}

type LongHistory = { projectId: string; environment: Environment };
