/**
 * Rows that a restore must not lose. Suppressions (including unsubscribes), so that nobody gets mail again who refused
 * it. Idempotency keys, so that a repeated request does not send again. This file reads them in the order of time for a
 * journal beside the backups (backup/places/folder-journal.ts), and replays them into a restored database.
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
select 'suppressions' as table, wire_time(h.at) as at, to_jsonb(s) as row
  from suppression_history h
  join suppressions s on s.project_id = h.project_id and s.environment = h.environment
                     and s.address_key = h.address_key
 where h.at > $1::timestamptz and h.at <= $2::timestamptz and h.action = 'added'
union all
select 'idempotency', wire_time(m.expires_at - interval '24 hours'), to_jsonb(m)
  from idempotency m
 where m.expires_at > $1::timestamptz + interval '24 hours'
   and m.expires_at <= $2::timestamptz + interval '24 hours'
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
  select s.* from jsonb_array_elements($1::jsonb) as g(row)
   cross join lateral jsonb_populate_record(null::suppressions, g.row) s
   where s.project_id in (select id from projects)
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
select distinct on (m.project_id, m.environment, m.key) m.*
  from jsonb_array_elements($1::jsonb) as g(row)
 cross join lateral jsonb_populate_record(null::idempotency, g.row) m
 where m.project_id in (select id from projects) and m.expires_at > app_now()
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
