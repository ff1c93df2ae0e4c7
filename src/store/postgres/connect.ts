/**
 * How a connection is made: which of several servers takes writes, what the session is set to, and the
 * check that the settings hold.
 *
 * Settings are made by statements after connecting, because poolers refuse or ignore most of them in
 * the first message, and because they then win over what DATABASE_URL, the role or the database
 * set. They are read back by a statement of its own: behind a pooler that gives each transaction
 * another server connection, that statement returns the settings of another session.
 */
import pg from 'pg';
import { urlsOf } from './database-address.ts';

/** Where the database is: host/port/user/password/database, as pg understands them. */
export type DatabaseAddress = pg.ClientConfig;

/** Names of settings and their values, written as PostgreSQL shows them. */
export type SessionSettings = Readonly<Record<string, string>>;

/** This database cannot be used as it is: a sentence for the operator, with the way out. */
export class UnsuitableDatabase extends Error {
  override readonly name = 'UnsuitableDatabase';
}

/** Whether an error, or what caused it, is that. */
export function isUnsuitable(error: unknown): error is Error {
  if (error instanceof UnsuitableDatabase) return true;
  return error instanceof Error && error.cause instanceof UnsuitableDatabase;
}

type Place = { host: string; port: number };

const PROBE_TIMEOUT_MS = 3_000;

const IS_WRITABLE = `select current_setting('transaction_read_only') = 'off' as is_writable`;

/**
 * The servers that an address names. With one, it is the one. With several, the first that takes
 * writes is found by asking all of them, kept, and looked for again after `forget`.
 */
export class Servers {
  readonly #config: pg.ClientConfig;
  readonly #places: readonly Place[];
  #finding: Promise<Place> | null = null;
  #present: Place;

  constructor(address: DatabaseAddress) {
    const { connectionString: url, ...rest } = address;
    const urls = url === undefined ? null : (urlsOf(url) ?? [url]);
    this.#config = urls === null ? rest : { ...rest, connectionString: urls[0] };
    this.#places = (urls ?? [url]).map((one) => placeOf({ ...rest, connectionString: one }));
    this.#present = this.#places[0]!;
  }

  get areSeveral(): boolean {
    return this.#places.length > 1;
  }

  /**
   * Where to connect to now.
   * @throws when no server takes writes
   */
  async find(): Promise<void> {
    if (!this.areSeveral) return;
    this.#finding ??= this.#ask();
    try {
      this.#present = await this.#finding;
    } catch (error) {
      this.#finding = null;
      throw error;
    }
  }

  /** The one in use failed or takes no writes any more. */
  forget(): void {
    this.#finding = null;
  }

  /** For a client: the address, then what is not in it. */
  config(more: pg.ClientConfig): pg.ClientConfig {
    return { ...this.#config, ...more };
  }

  /** Directs a client that has not connected yet to the server in use. */
  lead(client: pg.Client): void {
    client.host = this.#present.host;
    client.port = this.#present.port;
  }

  /** All at once, so that one that does not answer costs its time only once; the first in order wins. */
  async #ask(): Promise<Place> {
    const answers = this.#places.map((place) => this.#problemOf(place));
    const problems: string[] = [];
    for (const [index, answer] of answers.entries()) {
      const problem = await answer;
      const place = this.#places[index]!;
      if (problem === null) return place;
      problems.push(`${place.host}:${place.port} ${problem}`);
    }
    throw new Error(`none of the servers accepts writes: ${problems.join('; ')}`);
  }

  /** Null when it takes writes. */
  async #problemOf(place: Place): Promise<string | null> {
    const [connectionTimeoutMillis, query_timeout] = [PROBE_TIMEOUT_MS, PROBE_TIMEOUT_MS];
    const about = { application_name: 'posthorn probe', connectionTimeoutMillis, query_timeout };
    const client = new pg.Client(this.config(about));
    client.on('error', () => {}); // the statement that runs fails too, with the reason
    client.host = place.host;
    client.port = place.port;
    try {
      await client.connect();
      const { rows } = await client.query<{ is_writable: boolean }>(IS_WRITABLE);
      return rows[0]?.is_writable === true ? null : 'is read-only';
    } catch (error) {
      return (error as Error).message;
    } finally {
      void client.end().catch(() => {});
    }
  }
}

/** pg's own reading of an address, environment included. */
function placeOf(config: pg.ClientConfig): Place {
  const { host, port } = new pg.Client(config);
  return { host, port };
}

/** What a session has to be. A role that is not among the settings stays the one that logged in. */
export type Session = { settings: SessionSettings; name: string; timeoutMs: number };

const SET = `
select pg_backend_pid() as pid,
       array(select set_config(name, value, false)
               from unnest($1::text[], $2::text[]) with ordinality as s (name, value, i)
              order by i) as values`;

const READ_BACK = `
select pg_backend_pid() as pid,
       array(select current_setting(name)
               from unnest($1::text[]) with ordinality as s (name, i) order by i) as values`;

type Answer = { pid: number; values: string[] };

/**
 * Makes the settings of a session, and reads back that they are made.
 * @throws UnsuitableDatabase when they are not
 */
export async function setSession(client: pg.Client, session: Session): Promise<void> {
  const cancel = afterUnstalled(session.timeoutMs, () => {
    client.connection.stream.destroy(new Error('no connection in time'));
  });
  try {
    const names = Object.keys(session.settings);
    const wanted = Object.values(session.settings);
    const set = await client.query<Answer>(SET, [names, wanted]);
    const read = await client.query<Answer>(READ_BACK, [names]);
    const present = read.rows[0];
    if (set.rows[0]?.pid !== present?.pid) throw new UnsuitableDatabase(NO_SESSIONS);
    const others = names.filter((_, index) => present?.values[index] !== wanted[index]);
    if (others.length > 0) throw new UnsuitableDatabase(doesNotKeep(others));
  } finally {
    cancel();
  }
}

function doesNotKeep(names: readonly string[]): string {
  return (
    `The connection to the database does not keep what it is set to (${names.join(', ')}): ` +
    'connect to PostgreSQL itself, or through a pooler in session mode.'
  );
}

const NO_SESSIONS =
  'DATABASE_URL leads to a pooler that gives each transaction another connection, and Posthorn ' +
  'needs sessions: set pool_mode=session for this database there, or connect to PostgreSQL itself.';

/** A period is counted in so many parts, each a turn of the event loop in which sockets were read. */
const PERIOD_PARTS = 20;

/**
 * Calls `end` after a time that does not count event-loop stalls. A process that is busy with ten
 * thousand requests runs its timers late, before it reads the database's answer that has already
 * arrived: a plain timeout would take a database that answers for one that is down.
 * @returns what cancels it
 */
export function afterUnstalled(ms: number, end: () => void): () => void {
  let parts = 0;
  const timer = setInterval(() => {
    parts += 1;
    if (parts < PERIOD_PARTS) return;
    clearInterval(timer);
    end();
  }, ms / PERIOD_PARTS).unref();
  return () => clearInterval(timer);
}

/** A client class for pg's pool, which connects it at once: gives up after `timeoutMs`. */
export function pooledClient(timeoutMs: number, lead: (client: pg.Client) => void) {
  return class PooledClient extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      lead(this);
      const cancel = afterUnstalled(timeoutMs, () => {
        this.connection.stream.destroy(new Error('no connection in time'));
      });
      this.once('connect', cancel);
      this.once('end', cancel);
    }
  };
}

/**
 * A connection of its own, for migrations, partitions and tests: the caller ends it.
 * @throws with the reason when it cannot be had
 */
export async function openSession(address: DatabaseAddress, session: Session): Promise<pg.Client> {
  const { name, timeoutMs } = session;
  const servers = new Servers(address);
  await servers.find();
  const about = { application_name: name, connectionTimeoutMillis: timeoutMs };
  const client = new pg.Client(servers.config(about));
  servers.lead(client);
  client.on('error', () => {}); // the statement that runs fails too, with the reason
  try {
    await client.connect();
    await setSession(client, session);
  } catch (error) {
    void client.end().catch(() => {});
    throw error;
  }
  return client;
}

/** A statement outside of its pooling mode, as pgBouncer refuses it: protocol violation. */
const REFUSED_BY_POOLER = '08P01';

/**
 * Whether every session has a server connection of its own. A pooler shows itself by the process
 * number it gives at log-in, which is not the server's. Then two sessions take turns, in both orders:
 * a pooler that takes connections back after a transaction gives one of them the other's, whether it
 * hands out the one that was used last or the one that has rested longest.
 * @throws UnsuitableDatabase when they have not
 */
export async function requireSessions(
  first: pg.Client,
  openAnother: () => Promise<pg.Client>,
): Promise<void> {
  const { processID } = first as pg.Client & { processID: number | null };
  if ((await pidOf(first)) === processID) return;
  const second = await openAnother();
  try {
    const orders = [
      [first, second],
      [second, first],
    ];
    for (const order of orders) {
      if (!(await keepTheirs([first, second], order))) throw new UnsuitableDatabase(NO_SESSIONS);
    }
  } catch (error) {
    const isRefused = (error as { code?: string }).code === REFUSED_BY_POOLER;
    throw isRefused ? new UnsuitableDatabase(NO_SESSIONS) : error;
  } finally {
    await second.end();
  }
}

async function keepTheirs(
  clients: readonly pg.Client[],
  order: readonly pg.Client[],
): Promise<boolean> {
  const idle = [];
  for (const client of clients) idle.push(await pidOf(client));
  if (new Set(idle).size < clients.length) return false;
  for (const client of clients) await client.query('begin');
  for (const client of order) await client.query('commit');
  for (const [index, client] of clients.entries()) {
    if ((await pidOf(client)) !== idle[index]) return false;
  }
  return true;
}

async function pidOf(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid;
}
