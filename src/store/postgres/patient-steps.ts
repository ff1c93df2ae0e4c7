/**
 * Steps that change the schema of a database in use: each in a transaction of its own, and none that
 * waits for a lock for more than a second.
 *
 * A statement that waits for the lock of a table makes every later one on that table wait behind it: behind a
 * backup that reads for an hour, that is every node for an hour. So the step is rolled back
 * after a second and tried again later, until the reader has ended; nodes work on in between.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { clientQueries, connectAsOwner, type DatabaseAddress, type Queryable } from './database.ts';
import { MigrationRefused } from './schema-version.ts';

type Step = { name: string; run: () => Promise<unknown> };

type StepOptions = {
  address: DatabaseAddress;
  /** Told why it takes so long. */
  say: (sentence: string) => void;
  /** 10 minutes of them when not given. */
  triesMax: number | undefined;
};

const LOCK_TIMEOUT_MS = 1_000;
/** With the pauses, 10 minutes. */
const TRIES_MAX = 45;
const PAUSE_MAX_MS = 15_000;

/**
 * Runs a step in a transaction, again and again until it gets its locks.
 * @throws MigrationRefused, with who is in the way
 */
export async function runStep(db: Queryable, step: Step, options: StepOptions): Promise<void> {
  const { say, triesMax = TRIES_MAX } = options;
  for (let attempt = 1; ; attempt += 1) {
    const blocker = await tryStep(db, step, options.address);
    if (blocker === null) return;
    const waits = `${step.name} waits for ${blocker}`;
    if (attempt >= triesMax) {
      throw new MigrationRefused(
        `${waits} too long. Let that end, or end it with pg_terminate_backend, then start again.`,
      );
    }
    const pauseMs = Math.min(PAUSE_MAX_MS, 1_000 * 2 ** (attempt - 1));
    say(`${waits}; it is tried again in ${pauseMs / 1_000} s`);
    await pause(pauseMs);
  }
}

/** @returns who was in the way; null when it is done */
async function tryStep(
  db: Queryable,
  { run }: Step,
  address: DatabaseAddress,
): Promise<string | null> {
  const [self] = await db.query<{ pid: number }>('select pg_backend_pid() as pid');
  let looking: Promise<string | null> = Promise.resolve(null);
  const look = setTimeout(() => {
    looking = whoBlocks(address, self!.pid).catch(() => null);
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
    return (await looking) ?? 'another transaction';
  } finally {
    clearTimeout(look);
  }
}

/** A lock that was not to be had (55P03), or a deadlock with a node that works (40P01). */
function isContended(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } };
  return cause?.code === '55P03' || cause?.code === '40P01';
}

const WHO_BLOCKS = `
select string_agg(
         'process ' || pid ||
         ' (' || coalesce(nullif(application_name, ''), usename, backend_type, 'unknown') ||
         coalesce(', for ' || extract(epoch from now() - xact_start)::int || ' s', '') || ')', ', ')
         as who
  from pg_stat_activity where pid = any(pg_blocking_pids($1))`;

/** Can only be asked while the lock is waited for, so by another connection. */
async function whoBlocks(address: DatabaseAddress, pid: number): Promise<string | null> {
  const client = await connectAsOwner(address, 'migrate watch');
  try {
    const [row] = await clientQueries(client).query<{ who: string | null }>(WHO_BLOCKS, [pid]);
    return row?.who ?? null;
  } finally {
    await client.end();
  }
}
