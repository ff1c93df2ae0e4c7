/**
 * The WAL of the embedded engine, for the archive (backup/running/point-in-time-archiver.ts).
 *
 * A physical replication slot keeps WAL until the archive has it, up to `max_slot_wal_keep_size`
 * (database/embedded/cluster.ts). Beyond that PostgreSQL invalidates the slot, so an archive that cannot be written
 * never fills the disk of the database. The slot is named like the archive's series. Base backups do not contain
 * slots, so a restored cluster begins a series of its own.
 */
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../../database/database.ts';

/** Prefix of our slots. The full name is the name of the series. */
const SLOT_PREFIX = 'letterhaus_';

export type WalSlot = {
  name: string;
  isLost: boolean;
  restartLsn: string | null;
};

export type WalState = {
  now: Date;
  system: string;
  timeline: number;
  postgres: string;
  segmentBytes: number;
  dataDirectory: string;
  flushedLsn: string;
};

const STATE = `
select clock_timestamp() as now, (select system_identifier::text from pg_control_system()) as system,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline,
       current_setting('server_version') as postgres,
       pg_size_bytes(current_setting('wal_segment_size'))::int as "segmentBytes",
       current_setting('data_directory') as "dataDirectory",
       pg_current_wal_flush_lsn()::text as "flushedLsn"`;

export async function readWalState(db: Queryable): Promise<WalState> {
  const [state] = await db.query<WalState>(STATE);
  return state!;
}

/** The commit of the mark is in the WAL, so a recovery to any earlier time finds where to stop. */
const MARK = `
select clock_timestamp() as at, pg_logical_emit_message(true, 'letterhaus', 'archived until here')`;

/**
 * Commits a mark.
 * @returns a time before that commit: WAL up to the mark contains everything that was committed by then
 */
export async function markTime(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ at: Date }>(MARK);
  return row!.at;
}

const SLOTS = `
select slot_name as name, wal_status = 'lost' or restart_lsn is null as "isLost",
       restart_lsn::text as "restartLsn"
  from pg_replication_slots
 where slot_type = 'physical' and starts_with(slot_name, $1)
 order by slot_name`;

export function listSlots(db: Queryable): Promise<WalSlot[]> {
  return db.query<WalSlot>(SLOTS, [SLOT_PREFIX]);
}

/** Returns the name of a new series. The names sort by time. */
export function seriesName(now: Date, random: string): string {
  const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `${SLOT_PREFIX}${time}_${random}`.toLowerCase();
}

export async function createSlot(db: Queryable, name: string): Promise<void> {
  await db.query('select pg_create_physical_replication_slot($1, true)', [name]);
}

/** Allows PostgreSQL to remove WAL before this position, which the archive has. */
export async function advanceSlot(db: Queryable, name: string, lsn: string): Promise<void> {
  await db.query('select pg_replication_slot_advance($1, $2::pg_lsn)', [name, lsn]);
}

/** Drops a slot. PostgreSQL removes the WAL of the slot at its next checkpoint. */
export async function dropSlot(db: Queryable, name: string): Promise<void> {
  await db.query('select pg_drop_replication_slot($1)', [name]);
}

export async function dropSlots(address: DatabaseAddress): Promise<void> {
  const client = await connectAsOwner(address, 'point in time');
  try {
    const db = clientQueries(client);
    for (const { name } of await listSlots(db)) await dropSlot(db, name);
  } finally {
    await client.end();
  }
}
