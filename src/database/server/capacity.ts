/**
 * Checks that the database has enough connections for this node and enough disk space for mail.
 *
 * The connections of a node are compared with the server's limits (docs/scale.md). database/embedded/cluster.ts
 * configures the embedded engine by the same calculation. Settlements need disk space, so mail is refused before the
 * disk is full. The limit is free space where the database's disk is on this machine, the database's size where the
 * operator sets a limit, and otherwise PostgreSQL's error 53100.
 */
import { statfs } from 'node:fs/promises';
import pg from 'pg';
import { Overloaded } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import { UnsuitableServer } from './connect.ts';
import { DatabaseUnavailable, poolSizes, type Queryable, type WorkerTasks } from '../database.ts';

/** Connections of the supervisor: 4 for its tasks, 2 in the owner's role for partitions and retention. */
const SUPERVISOR_CONNECTIONS = 4 + 2;

export type ConnectionNeeds = {
  workers: number;
  perWorker: number;
  /** Connections under load. */
  connectionsMax: number;
  /** Connections that are open all the time. */
  connectionsMin: number;
};

export function connectionNeeds(work: WorkerTasks): ConnectionNeeds {
  const sizes = Object.values(poolSizes(work));
  const perWorker = sizes.reduce((sum, size) => sum + size, 0);
  const kinds = sizes.filter((size) => size > 0).length;
  const { workers } = work;
  return {
    workers,
    perWorker,
    connectionsMax: workers * perWorker + SUPERVISOR_CONNECTIONS,
    connectionsMin: workers * kinds + 1,
  };
}

type ServerConnections = {
  max: number;
  reserved: number;
  roleLimit: number;
  databaseLimit: number;
  taken: number;
};

/** `taken`: connections of others to any database of the server. A limit of -1 means none. */
const SERVER_CONNECTIONS = `
select current_setting('max_connections')::int as max,
       current_setting('superuser_reserved_connections')::int
         + coalesce(current_setting('reserved_connections', true), '0')::int as reserved,
       (select rolconnlimit from pg_roles where rolname = session_user) as "roleLimit",
       (select datconnlimit from pg_database where datname = current_database()) as "databaseLimit",
       (select coalesce(sum(numbackends), 0)::int from pg_stat_database
         where datname is not null) as taken`;

/**
 * Checks that the server has enough connections for a node.
 * @returns null, or a sentence for the log when there are too few under load
 * @throws UnsuitableServer when there are too few even without load
 */
export async function findConnectionsProblem(
  db: Queryable,
  needs: ConnectionNeeds,
): Promise<string | null> {
  const [server] = await db.query<ServerConnections>(SERVER_CONNECTIONS);
  if (!server) return null;
  const limits = [server.roleLimit, server.databaseLimit].filter((limit) => limit >= 0);
  const available = Math.min(server.max - server.reserved, ...limits);
  const free = Math.max(0, Math.min(available, server.max - server.reserved - server.taken));
  if (needs.connectionsMax <= free) return null;
  const { workers, perWorker, connectionsMax, connectionsMin } = needs;
  const role = server.roleLimit < 0 ? '' : `, ${server.roleLimit} for this role`;
  const base = server.databaseLimit < 0 ? '' : `, ${server.databaseLimit} for this database`;
  const sentence =
    `The database has ${free} free connections (max_connections ${server.max}, ${server.reserved} reserved, ` +
    `${server.taken} in use${role}${base}), and this node needs up to ${connectionsMax} ` +
    `(${workers} workers with ${perWorker} each, ${SUPERVISOR_CONNECTIONS} for the supervisor), ${connectionsMin} of them all the time: ` +
    'raise the limit, or start with fewer --workers.';
  if (connectionsMin > available) throw new UnsuitableServer(sentence);
  return sentence;
}

export async function readFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

const DATA_DIRECTORY = `
select case when inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8'
              or inet_server_addr() = '::1'
            then (select setting from pg_settings where name = 'data_directory') end as folder`;

/** Returns the data directory of a server on this machine; null when the server is remote or does not show it. */
export async function findLocalDataDirectory(owner: Queryable): Promise<string | null> {
  const [row] = await owner.query<{ folder: string | null }>(DATA_DIRECTORY);
  const folder = row?.folder ?? null;
  // A tunnel or a container looks local too, but its folder does not exist here.
  return folder !== null && (await readFreeBytes(folder).catch(() => null)) !== null
    ? folder
    : null;
}

export async function readDatabaseBytes(db: Queryable): Promise<number> {
  const [row] = await db.query<{ bytes: number }>(
    'select pg_database_size(current_database()) as bytes',
  );
  return row?.bytes ?? 0;
}

const DISK_FULL = '53100';
const REFUSES_FOR_MS = 10_000;

/**
 * Remembers that PostgreSQL reported a full disk to this worker. For 10 s new mail is refused, and outcomes are still
 * written. A statement that fails with this error has stored nothing.
 */
export class DiskFullMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  #untilMs = -Infinity;

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  refusal(): string | null {
    return this.#world.monotonicMs() < this.#untilMs ? 'the disk of the database is full' : null;
  }

  /** Runs `work`, which stores new mail. @throws Overloaded when the disk is full */
  async guard<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      this.#untilMs = this.#world.monotonicMs() + REFUSES_FOR_MS;
      throw new Overloaded(this.refusal() ?? '');
    }
  }
}

function isDiskFull(error: unknown): boolean {
  const cause = error instanceof DatabaseUnavailable ? error.cause : null;
  return cause instanceof pg.DatabaseError && cause.code === DISK_FULL;
}
