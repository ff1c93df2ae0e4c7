/**
 * Opens connections: selects the server that accepts writes, makes the session's settings and checks them.
 *
 * Statements make the settings after connecting. Poolers refuse or ignore most settings in the startup message, and
 * statements override those of DATABASE_URL, the role or the database. A second statement reads them back. A pooler
 * that assigns another server connection per transaction returns the settings of another session.
 */
import pg from 'pg';
import { splitDatabaseUrl } from './address.ts';

export type DatabaseAddress = pg.ClientConfig;

export type SessionSettings = Readonly<Record<string, string>>;

/**
 * The server, or a pooler in front of it, does not give what every database of ours needs: sessions, settings,
 * connections. The message says what the operator has to do.
 */
export class UnsuitableServer extends Error {
  override readonly name = 'UnsuitableServer';
}

export function isServerUnsuitable(error: unknown): error is Error {
  if (error instanceof UnsuitableServer) return true;
  return error instanceof Error && error.cause instanceof UnsuitableServer;
}

type ServerPlace = { host: string; port: number };

const PROBE_TIMEOUT_MS = 3_000;

const READ_ONLY = 'is read-only';
export const READ_ONLY_SQLSTATE = '25006';

/** When one server has said that it accepts writes, others have this long to say that they have a newer timeline. */
const OTHERS_WITHIN_MS = 500;

const IS_WRITABLE = `select current_setting('transaction_read_only') = 'off' as is_writable`;

/** Each promotion of a standby begins a new timeline. It is a hexadecimal number of eight digits. */
const TIMELINE = `select left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline`;

/** @property timeline empty: a hosted service hides it */
type ProbeAnswer = { timeline: string } | { problem: string };

/**
 * The servers of an address. With several, all are probed at once. Of those that accept writes, the one with the newest
 * timeline is used until `resetPrimary`: an old primary that nobody has stopped may accept writes, too. Servers with
 * equal timelines are used in the order of the address.
 */
export class Servers {
  readonly #config: pg.ClientConfig;
  readonly #places: readonly ServerPlace[];
  #finding: Promise<ServerPlace> | null = null;
  #primary: ServerPlace;

  constructor(address: DatabaseAddress) {
    const { connectionString: url, ...rest } = address;
    const urls = url === undefined ? null : (splitDatabaseUrl(url) ?? [url]);
    this.#config = urls === null ? rest : { ...rest, connectionString: urls[0] };
    this.#places = (urls ?? [url]).map((one) => placeOf({ ...rest, connectionString: one }));
    this.#primary = this.#places[0]!;
  }

  get hasSeveral(): boolean {
    return this.#places.length > 1;
  }

  async findPrimary(): Promise<void> {
    if (!this.hasSeveral) return;
    this.#finding ??= this.#probeAll();
    try {
      this.#primary = await this.#finding;
    } catch (error) {
      this.#finding = null;
      throw error;
    }
  }

  /** Forgets the selected server, after it failed or refused writes. */
  resetPrimary(): void {
    this.#finding = null;
  }

  clientConfig(extra: pg.ClientConfig): pg.ClientConfig {
    return { ...this.#config, ...extra };
  }

  /** Directs a client that has not connected yet to the server in use. */
  directToPrimary(client: pg.Client): void {
    client.host = this.#primary.host;
    client.port = this.#primary.port;
  }

  /** Probes all servers in parallel, so that silent ones cost one timeout. */
  async #probeAll(): Promise<ServerPlace> {
    const answers: ProbeAnswer[] = this.#places.map(() => ({ problem: 'has not answered yet' }));
    const probes = this.#places.map(async (place, index) => {
      answers[index] = await this.#probe(place);
      return answers[index];
    });
    await untilCompared(probes);
    const primary = answers.reduce<{ place: ServerPlace; timeline: string } | null>(
      (best, answer, index) =>
        'timeline' in answer && (best === null || answer.timeline > best.timeline)
          ? { place: this.#places[index]!, timeline: answer.timeline }
          : best,
      null,
    );
    if (primary !== null) return primary.place;
    throw noPrimaryError(this.#places, answers);
  }

  async #probe(place: ServerPlace): Promise<ProbeAnswer> {
    const [connectionTimeoutMillis, query_timeout] = [PROBE_TIMEOUT_MS, PROBE_TIMEOUT_MS];
    const probeConfig = {
      application_name: 'letterhaus probe',
      connectionTimeoutMillis,
      query_timeout,
    };
    const client = new pg.Client(this.clientConfig(probeConfig));
    client.on('error', () => {}); // the running statement fails with the reason
    client.host = place.host;
    client.port = place.port;
    try {
      await client.connect();
      const { rows } = await client.query<{ is_writable: boolean }>(IS_WRITABLE);
      if (rows[0]?.is_writable !== true) return { problem: READ_ONLY };
      return { timeline: await timelineOf(client) };
    } catch (error) {
      return { problem: (error as Error).message };
    } finally {
      void endOrDestroy(client);
    }
  }
}

/** Waits for all probes, or for OTHERS_WITHIN_MS after the first one that found a server that accepts writes. */
async function untilCompared(probes: readonly Promise<ProbeAnswer>[]): Promise<void> {
  const { promise: isLate, resolve: giveUp } = Promise.withResolvers<void>();
  let cancel = (): void => {};
  for (const probe of probes) {
    void probe.then((answer) => {
      if ('problem' in answer) return;
      cancel();
      cancel = setUnstalledTimeout(OTHERS_WITHIN_MS, giveUp);
    });
  }
  await Promise.race([Promise.all(probes), isLate]);
  cancel();
}

async function timelineOf(client: pg.Client): Promise<string> {
  try {
    const { rows } = await client.query<{ timeline: string }>(TIMELINE);
    return rows[0]?.timeline ?? '';
  } catch (error) {
    if (error instanceof pg.DatabaseError) return '';
    throw error;
  }
}

function noPrimaryError(places: readonly ServerPlace[], answers: readonly ProbeAnswer[]): Error {
  const problems = answers.map((answer) => ('problem' in answer ? answer.problem : ''));
  const named = problems.map((problem, at) => `${places[at]!.host}:${places[at]!.port} ${problem}`);
  const error = new Error(`none of the servers accepts writes: ${named.join('; ')}`);
  return problems.includes(READ_ONLY) ? Object.assign(error, { code: READ_ONLY_SQLSTATE }) : error;
}

function placeOf(config: pg.ClientConfig): ServerPlace {
  const { host, port } = new pg.Client(config);
  return { host, port };
}

/** Settings and name of a session. Without a role among its settings, it keeps the role that logged in. */
export type Session = { settings: SessionSettings; name: string; timeoutMs: number };

const SET_SETTINGS = `
select pg_backend_pid() as pid,
       array(select set_config(name, value, false)
               from unnest($1::text[], $2::text[]) with ordinality as s (name, value, i)
              order by i) as values`;

const READ_SETTINGS = `
select pg_backend_pid() as pid,
       array(select current_setting(name)
               from unnest($1::text[]) with ordinality as s (name, i) order by i) as values`;

type SettingsRow = { pid: number; values: string[] };

/**
 * Makes the settings of a session and reads them back.
 * @returns the pid of its server process, which behind a pooler differs from that of the log-in
 * @throws UnsuitableServer when the settings were not kept
 */
export async function setSession(client: pg.Client, session: Session): Promise<number> {
  const cancel = setUnstalledTimeout(session.timeoutMs, () => {
    client.connection.stream.destroy(new Error('no connection in time'));
  });
  try {
    const names = Object.keys(session.settings);
    const values = Object.values(session.settings);
    const set = await client.query<SettingsRow>(SET_SETTINGS, [names, values]);
    const read = await client.query<SettingsRow>(READ_SETTINGS, [names]);
    const current = read.rows[0];
    if (current === undefined || set.rows[0]?.pid !== current.pid)
      throw new UnsuitableServer(NO_SESSIONS_MESSAGE);
    const lost = names.filter((_, index) => current.values[index] !== values[index]);
    if (lost.length > 0) throw new UnsuitableServer(lostSettingsMessage(lost));
    return current.pid;
  } finally {
    cancel();
  }
}

function lostSettingsMessage(names: readonly string[]): string {
  return (
    `The connection to the database does not keep its settings (${names.join(', ')}): ` +
    'connect to PostgreSQL itself, or through a pooler in session mode.'
  );
}

const NO_SESSIONS_MESSAGE =
  'DATABASE_URL points to a pooler that gives each transaction another connection, and Letterhaus ' +
  'needs sessions: set pool_mode=session for this database there, or connect to PostgreSQL itself.';

/** Number of parts into which a period is divided. Each part takes a turn of the event loop, which reads sockets. */
const PERIOD_PARTS = 20;

/**
 * Calls `end` after a time that does not count event-loop stalls. In a process with ten thousand requests, timers run
 * late, before the process reads a reply that has already arrived. A plain timeout would call an available database
 * unavailable.
 * @returns a function that cancels it
 */
export function setUnstalledTimeout(ms: number, onTimeout: () => void): () => void {
  let parts = 0;
  const timer = setInterval(() => {
    parts += 1;
    if (parts < PERIOD_PARTS) return;
    clearInterval(timer);
    onTimeout();
  }, ms / PERIOD_PARTS).unref();
  return () => clearInterval(timer);
}

/** Returns a client class for pg's pool. Its clients fail when they do not connect within `timeoutMs`. */
export function createPooledClientClass(timeoutMs: number, onCreate: (client: pg.Client) => void) {
  return class PooledClient extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      onCreate(this);
      const cancel = setUnstalledTimeout(timeoutMs, () => {
        this.connection.stream.destroy(new Error('no connection in time'));
      });
      this.once('connect', cancel);
      this.once('end', cancel);
    }
  };
}

const END_WITHIN_MS = 2_000;

/** Ends a connection within END_WITHIN_MS. pg waits for the server to close it, which a silent one never does. */
export async function endOrDestroy(
  client: pg.Client,
  end: () => Promise<void> = () => client.end(),
): Promise<void> {
  const cancel = setUnstalledTimeout(END_WITHIN_MS, () => client.connection.stream.destroy());
  await end();
  cancel();
}

/** Protocol violation: pgBouncer's reply to a statement outside of its pooling mode. */
const REFUSED_BY_POOLER = '08P01';

/**
 * Checks that every session has its own server connection. Behind a pooler, the pid at log-in is not that of the server
 * process. Then two sessions alternate, in both orders. A pooler that reassigns connections after a transaction gives
 * one session the other's connection, whether it picks the most or the least recently used one.
 * @throws UnsuitableServer when sessions share a connection
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
      if (!(await keepTheirServers([first, second], order)))
        throw new UnsuitableServer(NO_SESSIONS_MESSAGE);
    }
  } catch (error) {
    const isRefused = (error as { code?: string }).code === REFUSED_BY_POOLER;
    throw isRefused ? new UnsuitableServer(NO_SESSIONS_MESSAGE) : error;
  } finally {
    await second.end();
  }
}

async function keepTheirServers(
  clients: readonly pg.Client[],
  order: readonly pg.Client[],
): Promise<boolean> {
  const pids = [];
  for (const client of clients) pids.push(await pidOf(client));
  if (new Set(pids).size < clients.length) return false;
  for (const client of clients) await client.query('begin');
  for (const client of order) await client.query('commit');
  for (const [index, client] of clients.entries()) {
    if ((await pidOf(client)) !== pids[index]) return false;
  }
  return true;
}

async function pidOf(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid;
}
