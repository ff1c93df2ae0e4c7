/**
 * Stores the workers with a lease: one row each, with a heartbeat counter.
 *
 * A worker increments its counter every 2 s (delivery/queue/lease.ts). A supervisor expires a worker whose counter
 * was unchanged in six of the supervisor's polls, each of which saw a new heartbeat of a worker of its own
 * (service/maintenance/node-watch.ts). So no clocks are compared, and a database that does not answer, or commits
 * nothing, expires no worker.
 */
import packageFile from '../../../package.json' with { type: 'json' };
import type { Queryable } from '../../database/database.ts';
import { DUE_BY_AGE } from './queue-store.ts';
import { SCHEMA_KNOWN } from '../../migration/schema-version.ts';

export type Heartbeat = {
  /** Requests to compare the worker's claims with its memory (delivery/queue-control/change-store.ts). */
  checksAsked: number;
  /** Start time of the server. It changes after a fail-over, which may have lost the last commits. */
  server: string;
};

const HEARTBEAT = `checks_asked as "checksAsked", pg_postmaster_start_time()::text as server`;

export async function registerWorker(
  db: Queryable,
  node: { id: string; instance: string; host: string; pid: number },
): Promise<Heartbeat> {
  const [row] = await db.query<Heartbeat>(
    `insert into nodes (id, instance, host, pid, started_at, schema_known, version)
     values ($1, $2, $3, $4, app_now(), $5, $6)
     returning ${HEARTBEAT}`,
    [node.id, node.instance, node.host, node.pid, SCHEMA_KNOWN, packageFile.version],
  );
  return row!;
}

/** Increments the counter. Returns null when the row is gone, because the worker expired or a fail-over lost it. */
export async function incrementHeartbeat(db: Queryable, id: string): Promise<Heartbeat | null> {
  const text = `update nodes set beat = beat + 1 where id = $1 returning ${HEARTBEAT}`;
  const [row] = await db.query<Heartbeat>({ name: 'beat', text }, [id]);
  return row ?? null;
}

/** Stores whether the uplink of the worker's machine is down (delivery/outage/uplink.ts). */
export async function setUplinkDown(db: Queryable, id: string, isDown: boolean): Promise<void> {
  await db.query('update nodes set uplink_down = $2 where id = $1', [id, isDown]);
}

/**
 * Resolves when a commit of this session is as durable as one of a heartbeat. It waits for a synchronous standby that
 * is gone, and fails on a full disk, while reads go on: then silent workers may be alive.
 */
export async function commitAsHeartbeat(db: Queryable): Promise<void> {
  // A commit waits only if its transaction has written to the WAL.
  await db.query(`select pg_logical_emit_message(true, 'letterhaus', 'alive')`);
}

/** @property instance the node of the worker */
export type WatchedWorker = { id: string; instance: string; beat: number };

export function listWorkers(db: Queryable): Promise<WatchedWorker[]> {
  return db.query('select id, instance, beat from nodes');
}

/** Returns all workers and the schema that they need, in one statement, because supervisors poll it. */
export async function readWorkersAndSchema(
  db: Queryable,
): Promise<{ nodes: WatchedWorker[]; schemaRequired: number }> {
  const text = `select installation.schema_required as required, nodes.id, nodes.instance, nodes.beat
                  from installation left join nodes on true`;
  type Row = { required: number } & Omit<WatchedWorker, 'id'> & { id: string | null };
  const rows = await db.query<Row>({ name: 'watch', text });
  return {
    nodes: rows.flatMap(({ id, instance, beat }) => (id === null ? [] : [{ id, instance, beat }])),
    schemaRequired: rows[0]?.required ?? 0,
  };
}

/** Returns the server's clock in milliseconds since 1970. Tests move app_now(), but not the clock of ids. */
export async function readClockMs(db: Queryable): Promise<number | null> {
  const text = 'select extract(epoch from clock_timestamp())::float8 * 1000 as ms';
  const [row] = await db.query<{ ms: number }>({ name: 'clock', text });
  return row?.ms ?? null;
}

/** Mail of an interrupted drop stays on hold, because another process continues the drop. */
const DUE_UNLESS_DROPPED = `case when queue.drop_id is null then ${DUE_BY_AGE} else queue.due_at end`;

/**
 * Expires a worker and releases its claims, which are due at once in the order of their age. With a `beat`, a worker
 * with a newer heartbeat is not expired.
 * @returns the number of recipients and webhook deliveries released
 */
export async function expireWorker(
  db: Queryable,
  node: { id: string; beat: number | null },
): Promise<number> {
  const rows = await db.query<{ freed: number }>(
    `with dead as (
       delete from nodes where id = $1::uuid and ($2::bigint is null or beat = $2) returning id
     ), mail as (
       update queue set holder = null, in_doubt = true, due_at = ${DUE_UNLESS_DROPPED} from dead
        where queue.holder = dead.id returning 1
     ), hooks as (
       update webhook_queue queue set holder = null, due_at = app_now() from dead
        where queue.holder = dead.id returning 1
     )
     select (select count(*) from mail)::int + (select count(*) from hooks)::int as freed`,
    [node.id, node.beat],
  );
  return rows[0]?.freed ?? 0;
}

const RELEASE_ORPHANS = `
with mail as (
  update queue set holder = null, in_doubt = true, due_at = ${DUE_UNLESS_DROPPED}
   where queue.holder is not null and not exists (select from nodes where nodes.id = queue.holder)
  returning 1
), hooks as (
  update webhook_queue queue set holder = null, due_at = app_now()
   where queue.holder is not null and not exists (select from nodes where nodes.id = queue.holder)
  returning 1
)
select (select count(*) from mail)::int + (select count(*) from hooks)::int as freed`;

/**
 * Releases claims without a lease. The database may commit the last accept or claim of a worker after that worker was
 * expired, because a statement runs for up to 20 s. It reads the whole queue, so it runs only after a worker has
 * died.
 */
export async function releaseOrphans(db: Queryable): Promise<number> {
  const [row] = await db.query<{ freed: number }>(RELEASE_ORPHANS);
  return row?.freed ?? 0;
}
