/**
 * Creates the weekly partitions of the large tables, by the time in the UUIDv7 key. Retention removes them as a whole
 * (retention/week-removal-store.ts).
 *
 * Partitions for the next eight weeks exist before the service is ready. A partition is created as a separate table
 * (`like`) and then attached. `partition of` would block all inserts into the parent while a reader has it open.
 */
import type { Queryable } from './database.ts';
import { firstUuidAt } from './ids.ts';

const PARTITION_COLUMNS = {
  emails: 'id',
  contents: 'email_id',
  recipients: 'email_id',
  events: 'subject_id',
  webhook_deliveries: 'event_id',
} as const;

export type PartitionedTable = keyof typeof PARTITION_COLUMNS;
const TABLES = Object.keys(PARTITION_COLUMNS) as PartitionedTable[];

/** Keeps values up to a page in the row; larger ones are moved to the TOAST table. */
const KEEP_ROWS_WHOLE = 'toast_tuple_target = 8160';

/**
 * Storage settings of a partition, which `like` does not copy. Free space in a page lets an update stay there (HOT).
 * Rows of `contents` longer than 2 KB are compressed, as is PostgreSQL's default.
 */
const SETTINGS: Record<PartitionedTable, string> = {
  emails: `fillfactor = 80, ${KEEP_ROWS_WHOLE}`,
  contents: 'fillfactor = 100',
  recipients: `fillfactor = 70, ${KEEP_ROWS_WHOLE}`,
  events: KEEP_ROWS_WHOLE,
  webhook_deliveries: `fillfactor = 70, ${KEEP_ROWS_WHOLE}`,
};

export const WEEK_MS = 7 * 24 * 3600 * 1000;
const WEEKS_AHEAD = 8;
/** For nodes whose clock is slow, and for mail accepted just before the end of a week. */
export const WEEKS_BEHIND = 1;

/** Creates the missing partitions around `nowMs`. The caller holds a lock, because many nodes may do this at once. */
export async function ensurePartitions(db: Queryable, nowMs: number): Promise<void> {
  const existing = await db.query<{ name: string }>(
    `select relname as name from pg_inherits join pg_class on pg_class.oid = pg_inherits.inhrelid
      where relnamespace = current_schema()::regnamespace`,
  );
  const names = new Set(existing.map((row) => row.name));
  const thisWeek = Math.floor(nowMs / WEEK_MS);
  for (let week = thisWeek - WEEKS_BEHIND; week <= thisWeek + WEEKS_AHEAD; week += 1) {
    for (const table of TABLES) {
      const name = `${table}_${compactDayOf(week)}`;
      if (!names.has(name)) await db.query(createPartitionSql(table, week));
    }
  }
}

/** The weeks that have a partition, by table. A backup stores them with the schema. */
export type Weeks = Readonly<Record<string, readonly number[]>>;

export async function readWeeks(db: Queryable): Promise<Weeks> {
  const partitions = await listPartitions(db);
  const weeksOf = (table: PartitionedTable) =>
    partitions.filter((one) => one.table === table).map(({ week }) => week);
  return Object.fromEntries(
    TABLES.map((table) => [table, weeksOf(table).toSorted((a, b) => a - b)]),
  );
}

export async function createWeeks(db: Queryable, weeks: Weeks): Promise<void> {
  for (const table of TABLES) {
    for (const week of weeks[table] ?? []) await db.query(createPartitionSql(table, week));
  }
}

function createPartitionSql(table: PartitionedTable, week: number): string {
  const column = PARTITION_COLUMNS[table];
  const name = `${table}_${compactDayOf(week)}`;
  const from = firstUuidAt(week * WEEK_MS);
  const to = firstUuidAt((week + 1) * WEEK_MS);
  return `
    create table if not exists ${name} (
      like ${table} including all,
      constraint bounds check (${column} >= '${from}' and ${column} < '${to}')
    ) with (${SETTINGS[table]});
    alter table ${table} attach partition ${name} for values from ('${from}') to ('${to}');
    alter table ${name} drop constraint bounds;`;
}

/** Returns the first day of a week, for example `20261119`. Weeks begin on a Thursday, as 1970-01-01 was one. */
function compactDayOf(week: number): string {
  return firstDayOf(week).replaceAll('-', '');
}

export function firstDayOf(week: number): string {
  return new Date(week * WEEK_MS).toISOString().slice(0, 10);
}

/** Returns the week of the partition with this name; null for any other table. */
function weekOfPartition(table: string, name: string): number | null {
  const [, year, month, day] = /^(\d{4})(\d{2})(\d{2})$/.exec(name.slice(table.length + 1)) ?? [];
  const week = Date.parse(`${year}-${month}-${day}`) / WEEK_MS;
  return Number.isInteger(week) && name === `${table}_${compactDayOf(week)}` ? week : null;
}

export type Partition = { table: PartitionedTable; name: string; week: number };

const LIST_PARTITIONS = `
select parent.relname as table, partition.relname as name
  from pg_inherits
  join pg_class partition on partition.oid = pg_inherits.inhrelid
  join pg_class parent on parent.oid = pg_inherits.inhparent
 where partition.relnamespace = current_schema()::regnamespace and partition.relkind = 'r'
   and parent.relname = any($1)`;

export async function listPartitions(db: Queryable): Promise<Partition[]> {
  type Row = { table: PartitionedTable; name: string };
  const rows = await db.query<Row>(LIST_PARTITIONS, [TABLES]);
  return rows.flatMap((row) => {
    const week = weekOfPartition(row.table, row.name);
    return week === null ? [] : [{ ...row, week }];
  });
}
