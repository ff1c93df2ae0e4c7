/**
 * Many suppressions at once: entries, their events, what is told of them and their history, a batch
 * in one statement and one commit. Doing a batch again changes nothing.
 */
import type { Scope } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import type { Queryable } from './postgres/database.ts';
import { newId } from './ids.ts';
import { remember } from './suppression-history.ts';
import { type Suppression, SUPPRESSION_JSON, UNLESS_OUTLASTED } from './suppressions.ts';
import { TELL } from './tell-sql.ts';

export type ImportedSuppression = Pick<Suppression, 'address' | 'reason' | 'expiresAt'> & {
  /** null: now. What lies in the future is taken for now. */
  createdAt: Date | null;
};

export type ImportedBatch = {
  added: number;
  /** Indexes of the rows that expire before they begin: they were left out. */
  expired: readonly number[];
};

// In the order of the keys: two imports of the same file wait for each other and never for ever.
const IMPORT = `
with t as materialized (select app_now() as now),
input as materialized (
  select distinct on (i.address_key collate "C") i.*
    from json_to_recordset($3::json) as i(
      ord int, address_key text, address text, reason text, created_at timestamptz,
      expires_at timestamptz, event_id uuid)
   order by i.address_key collate "C", i.ord
),
added as (
  insert into suppressions as s (project_id, environment, address_key, address, reason,
                                 created_at, expires_at)
  select $1::uuid, $2, i.address_key, i.address, i.reason,
         least(coalesce(i.created_at, t.now), t.now), i.expires_at
    from t, input i
   where i.expires_at is null or i.expires_at > t.now
   order by i.address_key collate "C"
  ${UNLESS_OUTLASTED}
  returning s.*
),
${remember({ action: 'added', from: 'added', by: `'import'` })},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select s.project_id, s.environment, i.event_id, 1, i.event_id, 'suppression.added', t.now,
         ${SUPPRESSION_JSON}
    from t, added s join input i on i.address_key collate "C" = s.address_key
  returning project_id, environment, subject_id, seq, id, type
),
${TELL}
select (select count(*) from added)::int as added, (select count(*) from told_queue)::int as told,
       (select coalesce(array_agg(i.ord), '{}') from input i, t where i.expires_at <= t.now) as expired`;

/** Adds those that are not there yet. An address that comes twice counts once. */
export async function importSuppressions(
  db: Queryable,
  scope: Scope,
  entries: readonly ImportedSuppression[],
): Promise<ImportedBatch> {
  const rows = entries.map((entry, index) => ({
    ord: index,
    address_key: addressKey(entry.address),
    address: entry.address,
    reason: entry.reason,
    created_at: entry.createdAt,
    expires_at: entry.expiresAt,
    event_id: newId(),
  }));
  const [result] = await db.query<ImportedBatch>(IMPORT, [
    scope.projectId,
    scope.environment,
    JSON.stringify(rows),
  ]);
  if (!result) throw new Error('an import says nothing of its batch');
  return result;
}
