/**
 * Rows that a restore must not lose: suppressions (including unsubscribes), so that nobody gets mail again who refused
 * it, and idempotency keys, so that a repeated request does not send again. This file reads them in the order of time
 * for a journal beside the backups (backup/places/folder-journal.ts), and replays them into a restored database.
 */
import { addressKey } from '../../mail/address.ts';
import type { Queryable } from '../../database/database.ts';

export type JournalRow = {
  table: 'suppressions' | 'idempotency';
  /** Time of the write, ISO 8601, by the clock of the database. */
  at: string;
  row: Record<string, unknown>;
};

/** Reads both tables by the index of their time. Suppressions that were removed since are left out. */
const READ = `
select 'suppressions' as table, wire_time(suppression_history.at) as at, to_jsonb(suppression) as row
  from suppression_history
  join suppressions suppression on suppression.project_id = suppression_history.project_id
       and suppression.environment = suppression_history.environment
                     and suppression.address_key = suppression_history.address_key
 where suppression_history.at > $1::timestamptz and suppression_history.at <= $2::timestamptz
   and suppression_history.action = 'added'
union all
select 'idempotency', wire_time(idempotency.expires_at - interval '24 hours'), to_jsonb(idempotency)
  from idempotency
 where idempotency.expires_at > $1::timestamptz + interval '24 hours'
   and idempotency.expires_at <= $2::timestamptz + interval '24 hours'
 order by 2`;

export function readJournalRows(
  db: Queryable,
  { from, to }: { from: Date; to: Date },
): Promise<JournalRow[]> {
  return db.query<JournalRow>(READ, [from, to]);
}

export async function readDatabaseTime(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ now: Date }>('select app_now() as now');
  return row!.now;
}

/** Replays suppressions of projects that the backup contains, and adds each to the history. */
const REPLAY_SUPPRESSIONS = `
with given as (
  select suppression.* from jsonb_array_elements($1::jsonb) as given(row)
   cross join lateral jsonb_populate_record(null::suppressions, given.row) suppression
   where suppression.project_id in (select id from projects)
),
added as (
  insert into suppressions select distinct on (project_id, environment, address_key) * from given
  on conflict do nothing
  returning *
)
insert into suppression_history (project_id, environment, address_key, at, action, reason,
                                 source_email_id, by)
select project_id, environment, address_key, created_at, 'added', reason, source_email_id,
       'command_line'
  from added
returning 1`;

const REPLAY_KEYS = `
insert into idempotency
select distinct on (idempotency.project_id, idempotency.environment, idempotency.key) idempotency.*
  from jsonb_array_elements($1::jsonb) as given(row)
 cross join lateral jsonb_populate_record(null::idempotency, given.row) idempotency
 where idempotency.project_id in (select id from projects) and idempotency.expires_at > app_now()
on conflict do nothing
returning 1`;

/** @returns numbers of suppressions and keys that the database did not have */
export async function replayJournal(
  db: Queryable,
  rows: readonly JournalRow[],
): Promise<{ suppressions: number; keys: number }> {
  const rowsOf = (table: JournalRow['table']) =>
    JSON.stringify(
      rows.filter((one) => one.table === table).map(({ row }) => withCurrentAddressKey(row)),
    );
  const suppressions = await db.query(REPLAY_SUPPRESSIONS, [rowsOf('suppressions')]);
  const keys = await db.query(REPLAY_KEYS, [rowsOf('idempotency')]);
  return { suppressions: suppressions.length, keys: keys.length };
}

/** Updates the address form of a journal that an older version wrote. */
function withCurrentAddressKey(row: JournalRow['row']): JournalRow['row'] {
  return typeof row.address_key === 'string'
    ? { ...row, address_key: addressKey(row.address_key) }
    : row;
}
