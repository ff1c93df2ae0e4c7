/**
 * Connections outside of the pools: for migrations, partitions, indexes and tests.
 *
 * Their statements may run for hours or wait for a lock of another node. So a time limit cannot distinguish a busy
 * server from a connection that the network dropped without a reset. A second connection can: it asks whether the
 * server process of the first one is working. The connection is dead when its client waits for an answer, while the
 * server process waits for its client or no longer exists. Then its statement fails.
 */
import { addAbortListener } from 'node:events';
import pg from 'pg';
import {
  type DatabaseAddress,
  endOrDestroy,
  Servers,
  type Session,
  setSession,
} from './connect.ts';

export type SilenceLimits = {
  everyMs: number;
  timeoutMs: number;
  /** Number of checks in a row without a working server process after which the connection is dead. */
  checksMax: number;
};

/** Ends a connection after 15 to 30 s, so that a network that fails for some seconds ends no migration. */
const SILENCE: SilenceLimits = { everyMs: 5_000, timeoutMs: 5_000, checksMax: 3 };

/** When the statements of a session fail: the signal is aborted, or the server is silent. */
export type AbortOptions = {
  silence?: SilenceLimits | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * Opens a connection whose statements fail when it is dead. The caller ends it, which takes at most 2 s.
 * @throws with the reason when it cannot be opened
 */
export async function openSession(
  address: DatabaseAddress,
  session: Session & AbortOptions,
): Promise<pg.Client> {
  const { signal, silence = SILENCE, name, timeoutMs } = session;
  const servers = new Servers(address);
  await untilAborted(servers.findPrimary(), signal);
  const identity = { application_name: name, connectionTimeoutMillis: timeoutMs };
  const client = new pg.Client(servers.clientConfig(identity));
  servers.directToPrimary(client);
  client.on('error', () => {}); // the running statement fails with the reason
  endOnAbort(client, signal);
  try {
    await client.connect();
    const pid = await setSession(client, session);
    watchForSilence(client, silence, () => findServerProblem(pid, { address, name, silence }));
  } catch (error) {
    void endOrDestroy(client);
    throw error;
  }
  return client;
}

/** Returns the result of `work`. @throws the reason of the signal when that is aborted first */
export async function untilAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (signal === undefined) return work;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  using _listening = addAbortListener(signal, () => reject(signal.reason));
  return await Promise.race([aborted, work]);
}

function endOnAbort(client: pg.Client, signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  const listening = addAbortListener(signal, () => {
    client.connection.stream.destroy(new Error('the connection was ended by a stop'));
  });
  client.once('end', () => listening[Symbol.dispose]());
}

/** Checks the connection while a statement has no answer, and bounds the time that `end` takes. */
function watchForSilence(
  client: pg.Client,
  { everyMs, checksMax }: SilenceLimits,
  findProblem: () => Promise<string | null>,
): void {
  let runningQueries = 0;
  let results = 0;
  let silentChecks = 0;
  const check = async (): Promise<void> => {
    const before = results;
    const problem = runningQueries === 0 ? null : await findProblem();
    silentChecks = problem === null || before !== results ? 0 : silentChecks + 1;
    if (problem !== null && silentChecks >= checksMax) {
      client.connection.stream.destroy(new Error(problem));
    } else {
      schedule();
    }
  };
  let timer: NodeJS.Timeout;
  const schedule = (): void => void (timer = setTimeout(() => void check(), everyMs).unref());
  schedule();
  client.once('end', () => clearTimeout(timer));

  const query = client.query.bind(client) as (...parameters: unknown[]) => unknown;
  const watchedQuery = (...parameters: unknown[]): unknown => {
    const result = query(...parameters);
    // The stream of a COPY waits for its reader or writer, so it is not watched.
    if (!(result instanceof Promise)) return result;
    runningQueries += 1;
    return result.finally(() => {
      runningQueries -= 1;
      results += 1;
    });
  };
  const end = client.end.bind(client);
  Object.assign(client, { query: watchedQuery, end: () => endOrDestroy(client, end) });
}

/** A server process that waits for its client is idle: the statement or its answer was lost. */
const IS_WORKING = `
select exists (select from pg_stat_activity
                where pid = $1 and wait_event_type is distinct from 'Client') as is_working`;

type ServerProcess = { address: DatabaseAddress; name: string; silence: SilenceLimits };

/** Returns null when the server process works, or when the server answers with an error. */
async function findServerProblem(
  pid: number,
  { address, name, silence }: ServerProcess,
): Promise<string | null> {
  const { timeoutMs } = silence;
  const servers = new Servers(address);
  try {
    await servers.findPrimary();
    const limits = { connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs };
    const client = new pg.Client(
      servers.clientConfig({ application_name: `${name} check`, ...limits }),
    );
    servers.directToPrimary(client);
    client.on('error', () => {}); // the running statement fails with the reason
    try {
      await client.connect();
      const { rows } = await client.query<{ is_working: boolean }>(IS_WORKING, [pid]);
      return rows[0]?.is_working === false
        ? 'a statement was not answered on a dead connection'
        : null;
    } finally {
      void endOrDestroy(client);
    }
  } catch (error) {
    // The server answers but cannot check, for example because it has no free connection.
    if (error instanceof pg.DatabaseError) return null;
    return `a statement was not answered, and another connection failed: ${(error as Error).message}`;
  }
}
