/**
 * How many connections a node takes from the database, and whether the server has room for them.
 * docs/database.md has the arithmetic for an operator. The embedded engine is made as large as this
 * says (embedded/cluster.ts).
 */
import { UnsuitableDatabase } from './connect.ts';
import type { Queryable } from './database.ts';

/** What the workers of a node do, all of them the same. */
export type Work = {
  workers: number;
  /** Emails come in, over HTTP or by submission. */
  accepts: boolean;
  delivers: boolean;
  /** Webhooks. */
  tells: boolean;
  /** Bounces and complaints come in. */
  receives: boolean;
};

/** The most connections that each kind of work opens in one worker. */
export type PoolSizes = Readonly<
  Record<'accept' | 'settle' | 'beat' | 'webhooks' | 'inbound' | 'read', number>
>;

/** Of a single worker that does everything: tests, commands, the supervisor. */
export const ONE_OF_ALL: Work = {
  workers: 1,
  accepts: true,
  delivers: true,
  tells: true,
  receives: true,
};

/** Readers of a machine together, as far as each worker gets at least 2 and at most 4. */
const READERS_PER_MACHINE = 16;
/** Nodes, lists, reputations; and two of the owner's, for partitions and retention. */
const SUPERVISOR = 4 + 2;

export function poolSizes(work: Work): PoolSizes {
  const readers = Math.floor(READERS_PER_MACHINE / work.workers);
  return {
    accept: work.accepts ? 1 : 0,
    settle: work.delivers ? 2 : 0,
    beat: 1,
    webhooks: work.tells ? 1 : 0,
    inbound: work.receives ? 3 : 0,
    read: Math.min(4, Math.max(2, readers)),
  };
}

export type ConnectionNeeds = {
  workers: number;
  perWorker: number;
  /** At the most, under load. */
  most: number;
  /** What stays open all the time. */
  least: number;
};

export function connectionNeeds(work: Work): ConnectionNeeds {
  const sizes = Object.values(poolSizes(work));
  const perWorker = sizes.reduce((sum, size) => sum + size, 0);
  const kinds = sizes.filter((size) => size > 0).length;
  const { workers } = work;
  return {
    workers,
    perWorker,
    most: workers * perWorker + SUPERVISOR,
    least: workers * kinds + 1,
  };
}

type Room = {
  max: number;
  reserved: number;
  roleLimit: number;
  databaseLimit: number;
  taken: number;
};

/** `taken`: by whoever else is connected to any database of the server. -1 as a limit: none. */
const ROOM = `
select current_setting('max_connections')::int as max,
       current_setting('superuser_reserved_connections')::int
         + coalesce(current_setting('reserved_connections', true), '0')::int as reserved,
       (select rolconnlimit from pg_roles where rolname = session_user) as "roleLimit",
       (select datconnlimit from pg_database where datname = current_database()) as "databaseLimit",
       (select coalesce(sum(numbackends), 0)::int from pg_stat_database
         where datname is not null) as taken`;

/**
 * Whether the server has the room that a node wants.
 * @returns null, or a sentence for the log: under load there will be too few
 * @throws UnsuitableDatabase when there are too few even at rest
 */
export async function roomProblem(db: Queryable, needs: ConnectionNeeds): Promise<string | null> {
  const [room] = await db.query<Room>(ROOM);
  if (!room) return null;
  const limits = [room.roleLimit, room.databaseLimit].filter((limit) => limit >= 0);
  const available = Math.min(room.max - room.reserved, ...limits);
  const free = Math.max(0, Math.min(available, room.max - room.reserved - room.taken));
  if (needs.most <= free) return null;
  const { workers, perWorker, most, least } = needs;
  const role = room.roleLimit < 0 ? '' : `, ${room.roleLimit} for this role`;
  const base = room.databaseLimit < 0 ? '' : `, ${room.databaseLimit} for this database`;
  const sentence =
    `The database has ${free} free connections (max_connections ${room.max}, ${room.reserved} reserved, ` +
    `${room.taken} in use${role}${base}), and this node needs up to ${most} ` +
    `(${workers} workers with ${perWorker} each, ${SUPERVISOR} for the supervisor), ${least} of them all the time: ` +
    'raise the limit, or start with fewer --workers.';
  if (least > available) throw new UnsuitableDatabase(sentence);
  return sentence;
}
