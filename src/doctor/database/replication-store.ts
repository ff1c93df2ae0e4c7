/** Reads the state of the standbys from the primary. Changes nothing. */
import type { Queryable } from '../../database/database.ts';

/**
 * @property syncState `sync` or `quorum` when commits wait for it, null when the role may not see it
 * @property lagS null when the standby is idle and up to date
 */
export type Standby = {
  name: string;
  syncState: string | null;
  lagS: number | null;
  lagBytes: number | null;
};

export type Replication = {
  /** True on a standby, which knows nothing of the others. */
  isStandby: boolean;
  /** Setting `synchronous_standby_names`, empty when commits wait for no standby. */
  synchronousNames: string;
  standbys: readonly Standby[];
  /** Slots for standbys that are not connected. `isLost`: the server has removed WAL that the standby needs. */
  unusedSlots: readonly { name: string; keptBytes: number; isLost: boolean }[];
};

const SERVER = `
select pg_is_in_recovery() as "isStandby",
       current_setting('synchronous_standby_names') as "synchronousNames"`;

// The role of another user sees only the pids.
const STANDBYS = `
select coalesce(nullif(application_name, ''), host(client_addr), 'process ' || pid) as name,
       sync_state as "syncState",
       extract(epoch from replay_lag)::float8 as "lagS",
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::float8 as "lagBytes"
  from pg_stat_replication
 where state is distinct from 'backup'
 order by name`;

const UNUSED_SLOTS = `
select slot_name as name,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::float8 as "keptBytes",
       wal_status is not distinct from 'lost' as "isLost"
  from pg_replication_slots
 where slot_type = 'physical' and not active and (restart_lsn is not null or wal_status = 'lost')
 order by slot_name`;

export async function readReplication(db: Queryable): Promise<Replication> {
  const [server] = await db.query<Pick<Replication, 'isStandby' | 'synchronousNames'>>(SERVER);
  if (server!.isStandby) return { ...server!, standbys: [], unusedSlots: [] };
  return {
    ...server!,
    standbys: await db.query<Standby>(STANDBYS),
    unusedSlots: await db.query<Replication['unusedSlots'][number]>(UNUSED_SLOTS),
  };
}
