/**
 * What was added to and removed from the suppression lists, by whom: written by the statement that
 * makes the change, so that neither is there without the other. An entry that expires leaves no
 * row: its time was told when it was added.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import type { SuppressionReason } from './suppressions.ts';

/**
 * `delivery`: what a mail server answered or reported; `recipient`: the unsubscribe page; `api`,
 * `import`, `command_line`: who works with the list.
 */
export type ChangedBy = 'delivery' | 'recipient' | 'api' | 'import' | 'command_line';

export type HistoryEntry = {
  action: 'added' | 'removed';
  reason: SuppressionReason;
  sourceEmailId: string | null;
  at: Date;
  by: ChangedBy;
};

/**
 * A step that remembers rows of `suppressions`. Needs a step `t` with the time.
 * @param change.from the step that returns the rows that were added or removed
 * @param change.by SQL: a parameter or a literal
 */
export const remember = (change: { action: HistoryEntry['action']; from: string; by: string }) => `
remembered as (
  insert into suppression_history (project_id, environment, address_key, at, action, reason,
                                   source_email_id, by)
  select c.project_id, c.environment, c.address_key, t.now, '${change.action}', c.reason,
         c.source_email_id, ${change.by}
    from ${change.from} c, t
)`;

const LIST = `
select action, reason, source_email_id as "sourceEmailId", at, by from suppression_history
 where project_id = $1 and environment = $2 and address_key = lower($3 collate "C")
 order by at desc
 limit $4`;

/** What happened to an address, newest first. */
export function listHistory(
  db: Queryable,
  scope: Scope,
  { address, limit }: { address: string; limit: number },
): Promise<HistoryEntry[]> {
  return db.query<HistoryEntry>(LIST, [scope.projectId, scope.environment, address, limit]);
}

/** As JSON, for the API and the command line. */
export function presentHistory(entry: HistoryEntry) {
  return {
    action: entry.action,
    reason: entry.reason,
    source_email_id: entry.sourceEmailId,
    at: entry.at.toISOString(),
    by: entry.by,
  };
}

const FORGET = `
delete from suppression_history where ctid = any(array(
  select ctid from suppression_history
   where at <= app_now() - interval '400 days' order by at limit $1)) returning 1`;

/** Forgets what is older than 400 days, a batch. @returns rows */
export async function forgetHistory(db: Queryable, limit: number): Promise<number> {
  return (await db.query(FORGET, [limit])).length;
}
