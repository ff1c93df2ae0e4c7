/**
 * The weekly partitions of the big tables, by the time inside the UUIDv7 key.
 *
 * Eight weeks ahead exist before the service is ready. A partition is made as a table of its own
 * (`like`) and then attached: `partition of` would lock the parent against all inserts while one
 * reader is open. Old ones leave again: partition-removal.ts.
 */
import type { Queryable } from './postgres/database.ts';

/** Tables partitioned by week, with the column that carries the UUIDv7. */
export const PARTITIONED = {
  emails: 'id',
  contents: 'email_id',
  recipients: 'email_id',
  events: 'subject_id',
  webhook_deliveries: 'event_id',
} as const;

/** Storage settings do not come with `like`; without them every update would leave its page. */
const FILLFACTOR: Partial<Record<keyof typeof PARTITIONED, number>> = {
  emails: 80,
  recipients: 70,
  webhook_deliveries: 70,
};

export const WEEK_MS = 7 * 24 * 3600 * 1000;
const WEEKS_AHEAD = 8;
/** A client or node whose clock is behind, and mail accepted just before midnight on Sunday. */
export const WEEKS_BEHIND = 1;

/** Makes the missing partitions around `nowMs`. Safe to run on many nodes at once (under a lock). */
export async function ensurePartitions(db: Queryable, nowMs: number): Promise<void> {
  const existing = await db.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where c.relnamespace = current_schema()::regnamespace`,
  );
  const names = new Set(existing.map((row) => row.name));
  const thisWeek = Math.floor(nowMs / WEEK_MS);
  for (let week = thisWeek - WEEKS_BEHIND; week <= thisWeek + WEEKS_AHEAD; week += 1) {
    for (const [table, column] of Object.entries(PARTITIONED)) {
      const name = `${table}_${dayOf(week)}`;
      if (!names.has(name)) await db.query(makePartition(table, column, week));
    }
  }
}

function makePartition(table: string, column: string, week: number): string {
  const name = `${table}_${dayOf(week)}`;
  const from = firstUuidOf(week * WEEK_MS);
  const to = firstUuidOf((week + 1) * WEEK_MS);
  const fillfactor = FILLFACTOR[table as keyof typeof PARTITIONED] ?? 100;
  // toast_tuple_target: up to a page stays in the row, a second table is only for more than that.
  return `
    create table if not exists ${name} (
      like ${table} including all,
      constraint bounds check (${column} >= '${from}' and ${column} < '${to}')
    ) with (fillfactor = ${fillfactor}, toast_tuple_target = 8160);
    alter table ${table} attach partition ${name} for values from ('${from}') to ('${to}');
    alter table ${name} drop constraint bounds;`;
}

/** `20261119`: the first day (a Thursday, as 1970-01-01 was) of the week. */
function dayOf(week: number): string {
  return new Date(week * WEEK_MS).toISOString().slice(0, 10).replaceAll('-', '');
}

/** The week of the partition with this name; null when it is not one that was made here. */
export function weekOf(table: string, name: string): number | null {
  const [, year, month, day] = /^(\d{4})(\d{2})(\d{2})$/.exec(name.slice(table.length + 1)) ?? [];
  const week = Date.parse(`${year}-${month}-${day}`) / WEEK_MS;
  return Number.isInteger(week) && name === `${table}_${dayOf(week)}` ? week : null;
}

/** The least UUID whose first 48 bits are `ms`. */
export function firstUuidOf(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
