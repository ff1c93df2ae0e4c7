/**
 * Connection pools to PostgreSQL, the only store and queue.
 *
 * Each kind of work has separate connections. So neither long reads nor other programs that use up all connections
 * delay mail. Every connection sets `synchronous_commit = on`. It uses a role that cannot drop or alter tables, if
 * migrations could create one.
 */
import pg from 'pg';
import { waitAtMost } from '../lib/at-most.ts';
import { Turns } from '../lib/turns.ts';
import {
  setUnstalledTimeout,
  type DatabaseAddress,
  createPooledClientClass,
  READ_ONLY_SQLSTATE,
  Servers,
  type Session,
  type SessionSettings,
  setSession,
  UnsuitableServer,
} from './server/connect.ts';
import { ConnectionQueue } from './connection-queue.ts';
import { openSession, type AbortOptions } from './server/watched-session.ts';

export type { DatabaseAddress } from './server/connect.ts';

/** The role of the service, which may read and write rows (server/database-roles.ts). */
export const APP_ROLE = 'letterhaus_app';

/** A statement with a name is prepared once per connection. */
export type Statement = { name?: string; text: string };

export type Queryable = {
  query<Row extends object>(
    statement: Statement | string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
};

/** The database cannot be reached, has no space or capacity, or ended the connection. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable';
  /** true: nothing was done. false: the result of the statement is unknown. */
  readonly isUndone: boolean;

  constructor(message: string, options: { cause?: unknown; isUndone?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.isUndone = options.isUndone ?? false;
  }
}

/** The tasks of a node's workers, by the pools that only they use. All workers of a node have the same tasks. */
export type WorkerTasks = {
  workers: number;
  accept: boolean;
  settle: boolean;
  webhooks: boolean;
  inbound: boolean;
};

/** Maximum number of connections per pool in one worker. */
export type PoolSizes = Readonly<
  Record<'accept' | 'settle' | 'heartbeat' | 'webhooks' | 'inbound' | 'check' | 'read', number>
>;

/** One worker with all tasks: for tests, commands and the supervisor. */
export const SINGLE_WORKER: WorkerTasks = {
  workers: 1,
  accept: true,
  settle: true,
  webhooks: true,
  inbound: true,
};

/** Connections for reads on one machine. Each worker has at least 2 and at most 4 of them. */
const READERS_PER_MACHINE = 16;

export function poolSizes(tasks: WorkerTasks): PoolSizes {
  const readers = Math.floor(READERS_PER_MACHINE / tasks.workers);
  return {
    accept: tasks.accept ? 1 : 0,
    settle: tasks.settle ? 2 : 0,
    heartbeat: 1,
    webhooks: tasks.webhooks ? 1 : 0,
    inbound: tasks.inbound ? 3 : 0,
    check: tasks.accept ? 2 : 1,
    read: Math.min(4, Math.max(2, readers)),
  };
}

/** The pools that a worker cannot work without. Received mail is not among them: its sender retries. */
const ESSENTIAL = ['accept', 'settle', 'heartbeat', 'webhooks', 'check', 'read'] as const;

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 20_000;
/** Low enough to detect a connection that a router dropped in time for the next heartbeat (delivery/queue/lease.ts). */
const HEARTBEAT_TIMEOUT_MS = 3_000;

/**
 * Settings for the frequent statements: one generic plan, never replanned, without sequential scans. A table that is
 * empty at planning would otherwise get a plan that reads it as a whole.
 */
export const HOT_SETTINGS: SessionSettings = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  jit: 'off',
};
/** A statement that waits for a locked row fails within a second, so the rest of the batch continues. */
const SHORT_LOCK_SETTINGS: SessionSettings = { ...HOT_SETTINGS, lock_timeout: '1s' };
export const COMMON_SETTINGS: SessionSettings = {
  synchronous_commit: 'on',
  TimeZone: 'UTC',
  lock_timeout: '10s',
  // Ends the transaction of a frozen worker, which would otherwise keep its locks.
  idle_in_transaction_session_timeout: '20s',
};

// No bigint of ours exceeds 2^53. Read as texts, counters would be concatenated instead of added.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

export class Database implements Queryable {
  /** Only for the statements of accept. */
  readonly accepting: Queryable & Pick<Database, 'transaction'>;
  readonly settling: Queryable;
  /** Only for heartbeats: a lease must not expire because a settlement waits for a lock. */
  readonly heartbeat: Queryable;
  /** Only for webhooks, so that many events do not delay mail. */
  readonly webhooks: Queryable;
  /** Only for received mail, so that many bounces do not delay accepted mail. */
  readonly inbound: Queryable & Pick<Database, 'transaction'>;
  /** For authentication and for the storage limit, so that long reads do not delay requests. */
  readonly checking: Queryable;
  readonly #pools: readonly Pool[];
  readonly #readers: Pool;
  /** One connection is always left for short reads. */
  readonly #longReads: Turns;
  readonly #essential: readonly Pool[];

  constructor(
    address: DatabaseAddress,
    options: { role: string | null; name: string; sizes?: PoolSizes; connectTimeoutMs?: number },
  ) {
    const connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
    const sizes = options.sizes ?? poolSizes(SINGLE_WORKER);
    const role: SessionSettings = options.role === null ? {} : { role: options.role };
    const servers = new Servers(address);
    const open = (
      name: keyof PoolSizes,
      poolSettings: SessionSettings,
      timeoutMs = STATEMENT_TIMEOUT_MS,
    ): Pool =>
      // A pool of size 0 still opens one connection when it is used.
      new Pool(Math.max(1, sizes[name]), servers, {
        name: `letterhaus ${options.name} ${name}`,
        settings: {
          ...role,
          ...COMMON_SETTINGS,
          statement_timeout: `${timeoutMs / 1_000}s`,
          ...poolSettings,
        },
        timeoutMs: connectTimeoutMs,
        queryTimeoutMs: timeoutMs + 1_000,
      });
    const pools: Record<keyof PoolSizes, Pool> = {
      accept: open('accept', HOT_SETTINGS),
      settle: open('settle', SHORT_LOCK_SETTINGS),
      heartbeat: open('heartbeat', HOT_SETTINGS, HEARTBEAT_TIMEOUT_MS),
      webhooks: open('webhooks', HOT_SETTINGS),
      inbound: open('inbound', HOT_SETTINGS),
      check: open('check', SHORT_LOCK_SETTINGS),
      read: open('read', {}),
    };
    this.accepting = pools.accept;
    this.settling = pools.settle;
    this.heartbeat = pools.heartbeat;
    this.webhooks = pools.webhooks;
    this.inbound = pools.inbound;
    this.checking = pools.check;
    this.#readers = pools.read;
    this.#longReads = new Turns({ count: sizes.read - 1, perOwner: sizes.read - 2 });
    this.#essential = ESSENTIAL.filter((name) => sizes[name] > 0).map((name) => pools[name]);
    this.#pools = Object.values(pools);
  }

  query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
    return this.#readers.query<Row>(statement, values);
  }

  /** For reads that may take long: searches, lists, statistics. Projects take turns. */
  readsOf(projectId: string): Queryable {
    const read: Queryable['query'] = (statement, values) =>
      this.#longReads.run(projectId, () => this.query(statement, values));
    return { query: read };
  }

  /**
   * Opens one connection of each kind and keeps it, so that mail continues when other programs use up the rest. A
   * connection that fails is opened later: an unavailable database does not end the worker.
   */
  async reserve(): Promise<void> {
    await Promise.allSettled(this.#essential.map((pool) => pool.query('select 1')));
  }

  /** Runs `work` in one transaction and rolls back when it throws. `work` must not wait for the network. */
  transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result> {
    return this.#readers.transaction(work);
  }

  /**
   * Closes all connections. A statement without a result fails after 2 s, so that a silent server cannot delay the end
   * of a process.
   */
  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()));
  }
}

const CLOSE_WITHIN_MS = 2_000;

class Pool implements Queryable {
  readonly #pool: pg.Pool;
  /** Includes connections that open or close, which pg's pool does not count. */
  readonly #clients = new Set<pg.Client>();
  readonly #servers: Servers;
  readonly #queue: ConnectionQueue;
  readonly #waitMs: number;
  #inUse = 0;
  #released = Promise.withResolvers<void>();

  constructor(max: number, servers: Servers, session: Session & { queryTimeoutMs: number }) {
    const { name, timeoutMs, queryTimeoutMs } = session;
    const config = servers.clientConfig({ application_name: name, query_timeout: queryTimeoutMs });
    // pg awaits the result, although its types do not say so.
    const onConnect: (client: pg.ClientBase) => unknown = (client) =>
      setSession(client as pg.Client, session);
    this.#pool = new pg.Pool({
      ...config,
      max,
      // Keeps one idle connection, because the server may have none when it is needed again.
      min: 1,
      idleTimeoutMillis: 60_000,
      allowExitOnIdle: true,
      Client: createPooledClientClass(timeoutMs, (client) => {
        servers.directToPrimary(client);
        this.#clients.add(client);
        client.once('end', () => this.#clients.delete(client));
      }),
      onConnect,
    });
    this.#servers = servers;
    this.#queue = new ConnectionQueue(max, timeoutMs);
    this.#waitMs = timeoutMs;
    // A broken connection fails its statement, and the next statement opens another one. An error event without a
    // listener would end the process.
    this.#pool.on('error', () => servers.resetPrimary());
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
    const client = await this.#connect();
    try {
      const rows = await clientQueries(client).query<Row>(statement, values);
      this.#release(client, false);
      return rows;
    } catch (error) {
      // Only a reply of the server proves that the connection works.
      this.#release(client, !(error instanceof pg.DatabaseError));
      if (isServerLost(error)) this.#servers.resetPrimary();
      throw error;
    }
  }

  async transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result> {
    const client = await this.#connect();
    const tx = clientQueries(client);
    let isBroken = true;
    try {
      await tx.query('begin');
      const result = await work(tx);
      await tx.query('commit');
      isBroken = false;
      return result;
    } catch (error) {
      isBroken = !(await tx.query('rollback').then(
        () => !isServerLost(error),
        () => false,
      ));
      if (isBroken) this.#servers.resetPrimary();
      throw error;
    } finally {
      this.#release(client, isBroken);
    }
  }

  /** Waits for the running statements, and cuts connections that do not close within CLOSE_WITHIN_MS. */
  async end(): Promise<void> {
    setUnstalledTimeout(CLOSE_WITHIN_MS, () => {
      for (const { connection } of this.#clients) {
        connection.stream.destroy(new Error('the connections of this process were closed'));
      }
    });
    await this.#pool.end();
  }

  async #connect(): Promise<pg.PoolClient> {
    try {
      await this.#queue.enter();
      return await this.#openOnPrimary().catch((error: unknown) => {
        this.#queue.leave();
        this.#servers.resetPrimary();
        throw error;
      });
    } catch (cause) {
      throw unavailableError(cause as Error, { isUndone: true });
    }
  }

  async #openOnPrimary(): Promise<pg.PoolClient> {
    if (this.#servers.hasSeveral) await this.#servers.findPrimary();
    const client = await this.#openOrReuse();
    this.#inUse += 1;
    return client;
  }

  /**
   * Opens a connection. When the server has none left, waits for one that another caller uses: those that a pool has
   * are enough for its work.
   */
  async #openOrReuse(): Promise<pg.PoolClient> {
    for (;;) {
      const released = this.#released.promise;
      let isReleased = false;
      void released.then(() => (isReleased = true));
      const [client, error] = await this.#pool.connect().then(
        (opened) => [opened, null] as const,
        (cause: unknown) => [null, cause] as const,
      );
      if (client !== null) return client;
      if (sqlStateOf(error) !== NO_CONNECTION_LEFT_SQLSTATE) throw error;
      if (this.#inUse === 0 && !isReleased) throw error;
      await waitAtMost(this.#waitMs, released);
      if (!isReleased) throw error;
    }
  }

  #release(client: pg.PoolClient, isBroken: boolean): void {
    client.release(isBroken);
    this.#inUse -= 1;
    this.#released.resolve();
    this.#released = Promise.withResolvers<void>();
    this.#queue.leave();
  }
}

/**
 * Runs `work` until the database is available. `work` must be safe to repeat: a statement whose connection was lost may
 * have been executed. Other errors are thrown. So is a lock timeout, which concerns one row: the rest of a batch
 * continues without it.
 * @returns null when `mayRetry`, called after each failure, returns false
 */
export function whenAvailable<Result>(
  work: () => Promise<Result>,
  options: { pauseMs: number; onFailure?: () => void },
): Promise<Result>;
export function whenAvailable<Result>(
  work: () => Promise<Result>,
  options: { pauseMs: number; mayRetry: () => boolean },
): Promise<Result | null>;
export async function whenAvailable<Result>(
  work: () => Promise<Result>,
  options: { pauseMs: number; onFailure?: () => void; mayRetry?: () => boolean },
): Promise<Result | null> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || isLockTimeout(error)) throw error;
      options.onFailure?.();
      if (options.mayRetry?.() === false) return null;
    }
    await new Promise((resolve) => setTimeout(resolve, options.pauseMs));
  }
}

/** Queries through one client: for migrations, maintenance or a transaction. */
export function clientQueries(client: pg.ClientBase): Queryable {
  return {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      try {
        const config = typeof statement === 'string' ? { text: statement } : statement;
        return (await client.query<Row>({ ...config, values: values as unknown[] })).rows;
      } catch (error) {
        throw translateError(error);
      }
    },
  };
}

/**
 * Opens a connection in the owner's role, for migrations and partitions. The caller ends it.
 * @throws DatabaseUnavailable
 */
export function connectAsOwner(
  address: DatabaseAddress,
  task: string,
  abortOptions: AbortOptions = {},
): Promise<pg.Client> {
  const name = `letterhaus ${task}`;
  const session = { name, settings: COMMON_SETTINGS, timeoutMs: CONNECT_TIMEOUT_MS };
  return openSession(address, { ...session, ...abortOptions }).catch((cause: Error) => {
    throw unavailableError(cause, { isUndone: true });
  });
}

/**
 * SQLSTATEs that come from the database's state, not from the statement, so that a retry may succeed: connection (08),
 * resources (53), shutdown or crash (57P), system (58), deadlock (40), standby (25006), our timeouts (25P03, 55P03,
 * 57014).
 */
const UNAVAILABLE_SQLSTATE = /^(08|25006|25P03|40|53|55P03|57014|57P|58)/;
/** SQLSTATEs after which the statement may still have been committed. */
const UNKNOWN_FATE_SQLSTATE = /^(08|40003|57P|58)/;
const LOCK_TIMEOUT_SQLSTATE = '55P03';
const NO_CONNECTION_LEFT_SQLSTATE = '53300';

/** Returns the SQLSTATE of an error; null when it is not from the server. */
export function sqlStateOf(error: unknown): string | null {
  const source = error instanceof DatabaseUnavailable ? error.cause : error;
  const { code } = (source ?? {}) as { code?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : null;
}

/** Returns whether a row was locked for longer than `lock_timeout`. That is no failure of the database. */
export function isLockTimeout(error: unknown): boolean {
  return sqlStateOf(error) === LOCK_TIMEOUT_SQLSTATE;
}

const REFUSED_BECAUSE: readonly (readonly [RegExp, string])[] = [
  [/^53/, 'it lacks space, memory or connections'],
  [/^(?:40(?!003)|55P03)/, 'another change was in progress'],
  [/^(?:25P03|57014)/, 'it took too long'],
];

/** Returns why a server that answers did not execute a statement for now, as a clause; null when it was not reached. */
export function busyReasonOf(error: unknown): string | null {
  return error instanceof DatabaseUnavailable ? reasonOf(sqlStateOf(error)) : null;
}

const reasonOf = (sqlState: string | null): string | null =>
  REFUSED_BECAUSE.find(([pattern]) => pattern.test(sqlState ?? ''))?.[1] ?? null;

export function isReadOnlyError(error: unknown): boolean {
  return sqlStateOf(error) === READ_ONLY_SQLSTATE;
}

/** Converts errors of the connection or the server into DatabaseUnavailable. Returns other errors unchanged. */
export function translateError(error: unknown): unknown {
  if (error instanceof DatabaseUnavailable) return error;
  if (error instanceof pg.DatabaseError) {
    const code = error.code ?? '';
    if (!UNAVAILABLE_SQLSTATE.test(code)) return error;
    return unavailableError(error, { isUndone: !UNKNOWN_FATE_SQLSTATE.test(code) });
  }
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) {
    return error;
  }
  return unavailableError(error, { isUndone: false });
}

/**
 * Returns whether another server may be the primary now: this one ended the connection, is unavailable, or became
 * a standby.
 */
function isServerLost(error: unknown): boolean {
  if (!(error instanceof DatabaseUnavailable)) return false;
  return !error.isUndone || (error.cause as { code?: string }).code === READ_ONLY_SQLSTATE;
}

const READ_TIMEOUT = 'Query read timeout';

function unavailableError(cause: Error, { isUndone }: { isUndone: boolean }): DatabaseUnavailable {
  const isServerUnsuitable = cause instanceof UnsuitableServer;
  const reason = cause.message === READ_TIMEOUT ? 'a statement was not answered' : cause.message;
  const isBusy = reasonOf(sqlStateOf(cause)) !== null;
  const says = isBusy ? 'refused a statement for now' : 'cannot be reached';
  const message = isServerUnsuitable ? cause.message : `the database ${says}: ${reason}`;
  return new DatabaseUnavailable(message, { cause, isUndone });
}
