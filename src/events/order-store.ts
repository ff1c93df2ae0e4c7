/**
 * The basis of the event stream's order (stream-store.ts): the epoch of the transaction numbers, the index of the
 * order, and the transaction that delays the stream. The owner's role creates epoch and index.
 */
import { tryAdvisoryLock } from '../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';

const HAS_EPOCHS = `select to_regproc('database_history') is not null as has`;

const FIND_SYSTEM = `
select nullif(split_part(database_history(), '/', 1), '') as present, system_id as noted
  from installation`;

/**
 * Begins an epoch when the data has moved to another database system. The new system numbers its transactions
 * independently, so later events could sort before earlier ones. pg_upgrade also creates another system, where a new
 * epoch does no harm. Run it in a transaction.
 */
export async function beginEpochOfNewSystem(db: Queryable): Promise<void> {
  const [epochs] = await db.query<{ has: boolean }>(HAS_EPOCHS);
  if (epochs?.has !== true) return;
  const [row] = await db.query<{ present: string | null; noted: string | null }>(FIND_SYSTEM);
  const { present, noted } = row!;
  if (present === null || present === noted) return;
  if (noted === null) {
    await db.query('update installation set system_id = $1', [present]);
    return;
  }
  const [epoch] = await db.query<{ epoch: number }>(
    `update installation set system_id = $1, xact_era = xact_era + 1 returning xact_era as epoch`,
    [present],
  );
  await db.query(`alter table events alter column xact_era set default ${epoch!.epoch}`);
}

/** Returns whether every partition has the index; false while it is still being built. */
export async function isStreamIndexed(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ valid: boolean }>(
    `select indisvalid as valid from pg_index where indexrelid = 'events_by_commit'::regclass`,
  );
  return row?.valid ?? false;
}

const HORIZON = `
select stream_horizon()::text as horizon,
       stream_horizon() < pg_snapshot_xmax(pg_current_snapshot()) as waits`;

/** Returns the number of the transaction that delays the stream, or null. */
export async function findBlockingTransaction(db: Queryable): Promise<string | null> {
  const [row] = await db.query<{ horizon: string; waits: boolean }>(HORIZON);
  return row?.waits === true ? row.horizon : null;
}

const FIND_UNINDEXED = `
select partition.relname as name, half_built.relname as half_built
  from pg_inherits
  join pg_class partition on partition.oid = pg_inherits.inhrelid
  left join pg_class half_built on half_built.relname = partition.relname || '_by_commit'
                               and half_built.relnamespace = partition.relnamespace
 where pg_inherits.inhparent = 'events'::regclass and not pg_inherits.inhdetachpending
   and not exists (select from pg_index join pg_inherits attached on attached.inhrelid = pg_index.indexrelid
                    where pg_index.indrelid = partition.oid
                      and attached.inhparent = 'events_by_commit'::regclass)
 order by partition.relname desc`;

/**
 * Builds the index on partitions without it, newest first, without blocking writes. Rebuilds an index that an
 * interruption left incomplete.
 * @returns the number of indexes built; 0 also when another machine is building them
 */
export async function buildStreamIndexes(
  address: DatabaseAddress,
  abortOptions: AbortOptions = {},
): Promise<number> {
  const client = await connectAsOwner(address, 'indexes', abortOptions);
  try {
    await client.query('set lock_timeout = 0');
    const db = clientQueries(client);
    // Other machines do not wait, because `concurrently` would wait for their waiting statement.
    return (await tryAdvisoryLock(db, 'streamIndexes')) ? await buildMissing(db) : 0;
  } finally {
    await client.end();
  }
}

async function buildMissing(db: Queryable): Promise<number> {
  const [definition] = await db.query<{ text: string }>(
    `select pg_get_indexdef('events_by_commit'::regclass) as text`,
  );
  const columns = definition!.text.replace(/^.*? USING /s, 'using ');
  const partitions = await db.query<{ name: string; half_built: string | null }>(FIND_UNINDEXED);
  for (const { name, half_built: halfBuilt } of partitions) {
    if (halfBuilt !== null) await db.query(`drop index concurrently ${halfBuilt}`);
    await db.query(`create index concurrently ${name}_by_commit on ${name} ${columns}`);
    await db.query(`alter index events_by_commit attach partition ${name}_by_commit`);
  }
  return partitions.length;
}
