/** One step of a migration: a transaction that waits at most a second for a lock, repeated until it succeeds. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';

const LOCK_TIMEOUT_MS = 1_000;
const TRIES_MAX = 45;
const PAUSE_MAX_MS = 15_000;

export type SchemaStep = { name: string; run: () => Promise<unknown> };

export type StepOptions = AbortOptions & {
  address: DatabaseAddress;
  log: (sentence: string) => void;
  triesMax: number | undefined;
};

/**
 * Changes the schema of a database in use, in a transaction that waits at most a second for a lock.
 *
 * A statement that waits for a table lock blocks every later statement on that table. Behind a backup that reads for an
 * hour, it would block all nodes for an hour. So the step is rolled back after a second and retried until the reader
 * has ended. Nodes work in between.
 * @throws RefusedDatabase, which names the process that has the lock
 */
export async function runStep(
  db: Queryable,
  step: SchemaStep,
  options: StepOptions,
): Promise<void> {
  const { log, triesMax = TRIES_MAX } = options;
  for (let attempt = 1; ; attempt += 1) {
    const blocker = await tryStep(db, step, options);
    if (blocker === null) return;
    const problem = `${step.name} waits for ${blocker}`;
    if (attempt >= triesMax) {
      throw new RefusedDatabase(
        `${problem} too long. Let that end, or end it with pg_terminate_backend, then start again.`,
      );
    }
    const pauseMs = Math.min(PAUSE_MAX_MS, 1_000 * 2 ** (attempt - 1));
    log(`${problem}; the next try is in ${pauseMs / 1_000} s`);
    await pause(pauseMs, null, { signal: options.signal });
  }
}

/**
 * Runs the step in a transaction.
 * @returns the process that had the lock; null when the step is committed
 */
async function tryStep(
  db: Queryable,
  { run }: SchemaStep,
  { address, silence, signal }: StepOptions,
): Promise<string | null> {
  const [self] = await db.query<{ pid: number }>('select pg_backend_pid() as pid');
  let findingBlocker: Promise<string | null> = Promise.resolve(null);
  const blockerTimer = setTimeout(() => {
    findingBlocker = findBlocker(address, self!.pid, { silence, signal }).catch(() => null);
  }, LOCK_TIMEOUT_MS / 2);
  try {
    await db.query('begin');
    await db.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await run();
    await db.query('commit');
    return null;
  } catch (error) {
    await db.query('rollback').catch(() => {});
    if (!isContended(error)) throw error;
    return (await findingBlocker) ?? 'another transaction';
  } finally {
    clearTimeout(blockerTimer);
  }
}

/** Returns whether the error is a lock timeout (55P03), or a deadlock with a working node (40P01). */
function isContended(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } };
  return cause?.code === '55P03' || cause?.code === '40P01';
}

const FIND_BLOCKER = `
select string_agg(
         'process ' || pid ||
         ' (' || coalesce(nullif(application_name, ''), usename, backend_type, 'unknown') ||
         coalesce(', for ' || extract(epoch from now() - xact_start)::int || ' s', '') || ')', ', ')
         as blocker
  from pg_stat_activity where pid = any(pg_blocking_pids($1))`;

async function findBlocker(
  address: DatabaseAddress,
  pid: number,
  abortOptions: AbortOptions,
): Promise<string | null> {
  const client = await connectAsOwner(address, 'migrate watch', abortOptions);
  try {
    const [row] = await clientQueries(client).query<{ blocker: string | null }>(FIND_BLOCKER, [
      pid,
    ]);
    return row?.blocker ?? null;
  } finally {
    await client.end();
  }
}
