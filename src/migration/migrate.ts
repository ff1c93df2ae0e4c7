/**
 * Migrates a database to the schema of this version: migrations/ in order, under a lock. Each migration is a
 * transaction that waits at most a second for a lock. An empty database takes all in one transaction. Forward only. A
 * database that is ahead of the code is used unchanged, unless it requires newer code (schema-version.ts).
 *
 * The owner's connection that runs this owns schema and partitions. The service works in roles that can only read and
 * write rows, if the server permits creating them (database/server/roles.ts).
 */
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type Postgrator from 'postgrator';
import { TRANSITIONS } from '../core/statuses.ts';
import { ADVISORY_LOCKS } from '../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
  translateError,
} from '../database/database.ts';
import { isUnsuitable, requireSessions } from '../database/server/connect.ts';
import { refuseUnusable } from '../database/server/move-marks.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';
import { type LoginOutcome, makeAppRole, makeLogin } from '../database/server/roles.ts';
import { keyEarlierLists } from './migrate-addresses.ts';
import { beginEpochOfNewSystem } from '../events/order-store.ts';
import { type Migration, migrationsAfter } from './effects.ts';
import { ensurePartitions } from '../database/partitions.ts';
import {
  checkSecretKey,
  firstSecretKey,
  type SecretKeyLocation,
  readOrCreateSecretKey,
} from '../secrets/key-check-store.ts';
import { DatabaseUnusable } from '../database/server/unusable-error.ts';
import {
  listOlderNodes,
  MIGRATIONS,
  newestIn,
  outdatedProblem,
  schemaRequired,
} from './schema-version.ts';

const SCHEMA_TABLE = 'schema_migrations';
/**
 * Older nodes check every few seconds (service/maintenance/maintenance.ts) and stop within 30 s
 * (service/worker/pool.ts).
 */
const OLDER_NODES_END_WITHIN_S = 45;
/**
 * Workers send a heartbeat every two seconds (delivery/queue/lease.ts), so workers that are silent this long are dead.
 */
const OLDER_NODES_SILENT_S = 15;

export type MigrationResult = {
  version: number;
  applied: string[];
  /** Role to work in; null if the server does not permit creating it. */
  role: string | null;
  /** Log-in of workers; null if not requested, or without the role. */
  login: LoginOutcome | null;
  /** Secret key of the database, created for a new one; null if not requested. */
  secretKey: string | null;
};

export type MigrateOptions = AbortOptions & {
  nowMs: number;
  acceptAnyDurability: boolean;
  /** Why an empty database must not become an installation (database/server/database-note.ts); null: it may. */
  emptyProblem?: string | null;
  /**
   * For a service. The key must be that of the database. The login role of workers is derived from it
   * (database/server/roles.ts).
   */
  secretKey?: SecretKeyLocation;
  backUp?: BackUp | undefined;
  log?: (sentence: string) => void;
  folder?: string;
  triesMax?: number;
};

/**
 * @property present schema version of the database
 * @property asking the migrations that ask for the backup
 */
export type BackUp = (need: { present: number; asking: readonly Migration[] }) => Promise<void>;

/**
 * Migrates, creates partitions, and seeds the tables that mirror code. Waits while another node migrates.
 * @throws DatabaseUnusable when the database requires newer code, may lose commits, or is locked, or when the backup
 *   that a migration asks for fails; then nothing was migrated
 * @throws SecretKeyProblem when the secret key is not that of the database; then nothing was changed
 * @throws DatabaseUnavailable
 */
export async function migrate(
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<MigrationResult> {
  const { silence, signal, secretKey: place } = options;
  const connect = () => connectAsOwner(address, 'migrate', { silence, signal });
  const client = await connect();
  const db = clientQueries(client);
  try {
    await requireSessions(client, connect).catch((error: unknown) => {
      throw isUnsuitable(error) ? error : translateError(error);
    });
    await refuseServer(db, options);
    // Another node's migration may take any time, so this wait has no limit.
    await db.query('set lock_timeout = 0');
    await lockMigrations(db);
    await refuseUnusable(db);
    if (place !== undefined) await checkSecretKey(db, place);
    const applied = await applyMigrations(db, address, options);
    // Still under the lock: when several nodes begin on an empty database, one creates the key.
    const secretKey = place === undefined ? null : await readOrCreateSecretKey(db, place);
    const role = await makeAppRole(db);
    if (role === null || secretKey === null) return { ...applied, role, login: null, secretKey };
    await db.query('reset role');
    // During a rotation there are two keys. The first seals.
    const sealingKey = firstSecretKey(secretKey);
    const login = await makeLogin(db, address, { secretKey: sealingKey, silence, signal });
    return { ...applied, role, login, secretKey };
  } finally {
    await client.end();
  }
}

/** Longer than any pause between the statements of a migration (PAUSE_MAX_MS). */
const HOLDER_IDLE_MAX_MS = 30_000;

/**
 * Locks migrations until the session ends. The server ends a session whose client sends nothing for `idleMaxMs`.
 * Otherwise a node that is frozen, or lost its power, would keep the others from starting until TCP gives up.
 */
export async function lockMigrations(
  db: Queryable,
  idleMaxMs: number = HOLDER_IDLE_MAX_MS,
): Promise<void> {
  await db.query(`set idle_session_timeout = ${idleMaxMs}`);
  await db.query('select pg_advisory_lock($1)', [ADVISORY_LOCKS.migrations]);
}

/** @throws DatabaseUnusable when the server is too old, or may lose commits */
export async function refuseServer(
  db: Queryable,
  { acceptAnyDurability }: Pick<MigrateOptions, 'acceptAnyDurability'>,
): Promise<void> {
  await refuseOldServer(db);
  if (!acceptAnyDurability) await refuseForgetfulServer(db);
}

async function refuseOldServer(db: Queryable): Promise<void> {
  const [row] = await db.query<{ number: number; text: string }>(
    `select current_setting('server_version_num')::int as number,
            current_setting('server_version') as text`,
  );
  if (row && row.number >= 150_000) return;
  throw new DatabaseUnusable(`PostgreSQL 15 or newer is needed. This server is ${row?.text}.`);
}

/** Refuses a server that may lose a commit: a 202 promises that the email is on disk. */
async function refuseForgetfulServer(db: Queryable): Promise<void> {
  const settings = await db.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('fsync', 'full_page_writes')`,
  );
  const off = ['fsync', 'full_page_writes'].filter(
    (name) => settings.find((row) => row.name === name)?.setting !== 'on',
  );
  if (off.length === 0) return;
  throw new DatabaseUnusable(
    `The database does not guarantee what it commits (${off.join(' and ')} not on). ` +
      'Turn it on, or set LETTERHAUS_ACCEPT_DATABASE_DURABILITY=1 if another layer provides the guarantee.',
  );
}

async function applyMigrations(
  db: Queryable,
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<{ version: number; applied: string[] }> {
  const { folder = MIGRATIONS, nowMs, triesMax, log = () => {}, silence, signal } = options;
  const step = (name: string, run: () => Promise<unknown>): Promise<void> =>
    runStep(db, { name, run }, { address, log, triesMax, silence, signal });
  const newest = newestIn(folder);
  const present = await versionOf(db);
  if (present > 0) await refuseOutdatedCode(db, newest);
  else if (options.emptyProblem) throw new DatabaseUnusable(options.emptyProblem);
  const finish = async (): Promise<void> => {
    if (present <= newest) await seedTransitions(db);
    await keyEarlierLists(db);
    await beginEpochOfNewSystem(db);
    await ensurePartitions(db, nowMs);
  };
  const version = Math.max(present, newest);
  if (present >= newest) {
    await step('making partitions', finish);
    return { version, applied: [] };
  }
  const postgrator = await migrationsIn(folder, db);
  const pending = (await postgrator.getMigrations()).filter((each) => each.version > present);
  if (present === 0) {
    await step('the first migration', () => postgrator.migrate().then(finish));
  } else {
    await postgrator.validateMigrations(present);
    await backUpFirst(db, { present, folder, backUp: options.backUp });
    for (const migration of pending) {
      const name = `migration ${basename(migration.filename)}`;
      const requiredBefore = await schemaRequired(db);
      await step(name, () => postgrator.runMigrations([migration]));
      const required = await schemaRequired(db);
      if (required > requiredBefore) await letOlderNodesEnd(db, required, { log, signal });
    }
    await step('making partitions', finish);
  }
  return { version, applied: pending.map(({ filename }) => filename) };
}

/** Less than HOLDER_IDLE_MAX_MS, so that the lock is kept. */
const KEEP_LOCK_EVERY_MS = 5_000;

/** Makes the backup under the lock, so that only one of several nodes makes it. */
async function backUpFirst(
  db: Queryable,
  { present, folder, backUp }: { present: number; folder: string; backUp: BackUp | undefined },
): Promise<void> {
  const asking = migrationsAfter(present, folder).filter((each) => each.backupReason !== null);
  if (asking.length === 0 || backUp === undefined) return;
  const keeping = setInterval(() => {
    // If the session has ended, the next statement fails with that reason.
    db.query('select 1').catch(() => {});
  }, KEEP_LOCK_EVERY_MS);
  try {
    await backUp({ present, asking });
  } finally {
    clearInterval(keeping);
  }
}

/**
 * Brings an empty or older schema to a version, in the transaction of the caller. A restore fills the schema of a
 * backup before it is migrated to the current one.
 */
export async function migrateTo(db: Queryable, version: number): Promise<void> {
  const postgrator = await migrationsIn(MIGRATIONS, db);
  await postgrator.migrate(String(version));
}

/** Returns the schema version; 0 when nothing was migrated yet. */
export async function versionOf(db: Queryable): Promise<number> {
  const [table] = await db.query<{ isThere: boolean }>(
    `select to_regclass('${SCHEMA_TABLE}') is not null as "isThere"`,
  );
  if (table?.isThere !== true) return 0;
  const [row] = await db.query<{ version: number }>(
    `select coalesce(max(version), 0)::int as version from ${SCHEMA_TABLE}`,
  );
  return row?.version ?? 0;
}

/** Loads the library only for starts that have something to migrate: it takes 15 ms of CPU time. */
async function migrationsIn(folder: string, db: Queryable): Promise<Postgrator> {
  const { default: Library } = await import('postgrator');
  return new Library({
    migrationPattern: join(folder, '*.sql'),
    driver: 'pg',
    schemaTable: SCHEMA_TABLE,
    execQuery: async (query: string) => ({ rows: await db.query(query) }),
    validateChecksums: true,
  });
}

async function refuseOutdatedCode(db: Queryable, known: number): Promise<void> {
  const problem = outdatedProblem(await schemaRequired(db), known);
  if (problem !== null) throw new DatabaseUnusable(problem);
}

/**
 * Waits until older nodes have noticed that they have to stop, and settled their work. The next migration removes
 * something that their code needs. Rows of killed workers remain, so the wait also ends when no heartbeat changes.
 */
async function letOlderNodesEnd(
  db: Queryable,
  required: number,
  { log, signal }: Pick<StepOptions, 'log' | 'signal'>,
): Promise<void> {
  let heartbeats = new Map<string, number>();
  let silentS = 0;
  for (let second = 0; second < OLDER_NODES_END_WITHIN_S; second += 1) {
    const workers = await listOlderNodes(db, required);
    silentS = workers.some(({ id, beat }) => heartbeats.get(id) !== beat) ? 0 : silentS + 1;
    if (workers.length === 0 || silentS >= OLDER_NODES_SILENT_S) return;
    if (second === 0) {
      log(`${workers.length} workers of an older version end before the next migration`);
    }
    heartbeats = new Map(workers.map(({ id, beat }) => [id, beat]));
    await pause(1_000, null, { signal });
  }
  log('workers of an older version have not ended; the migration continues');
}

type Step = { name: string; run: () => Promise<unknown> };

type StepOptions = AbortOptions & {
  address: DatabaseAddress;
  log: (sentence: string) => void;
  triesMax: number | undefined;
};

const LOCK_TIMEOUT_MS = 1_000;
const TRIES_MAX = 45;
const PAUSE_MAX_MS = 15_000;

/**
 * Changes the schema of a database in use, in a transaction that waits at most a second for a lock.
 *
 * A statement that waits for a table lock blocks every later statement on that table. Behind a backup that reads for an
 * hour, it would block all nodes for an hour. So the step is rolled back after a second and retried until the reader
 * has ended. Nodes work in between.
 * @throws DatabaseUnusable, which names the process that has the lock
 */
async function runStep(db: Queryable, step: Step, options: StepOptions): Promise<void> {
  const { log, triesMax = TRIES_MAX } = options;
  for (let attempt = 1; ; attempt += 1) {
    const blocker = await tryStep(db, step, options);
    if (blocker === null) return;
    const waits = `${step.name} waits for ${blocker}`;
    if (attempt >= triesMax) {
      throw new DatabaseUnusable(
        `${waits} too long. Let that end, or end it with pg_terminate_backend, then start again.`,
      );
    }
    const pauseMs = Math.min(PAUSE_MAX_MS, 1_000 * 2 ** (attempt - 1));
    log(`${waits}; the next try is in ${pauseMs / 1_000} s`);
    await pause(pauseMs, null, { signal: options.signal });
  }
}

/** @returns the process that had the lock; null when the step is committed */
async function tryStep(
  db: Queryable,
  { run }: Step,
  { address, silence, signal }: StepOptions,
): Promise<string | null> {
  const [self] = await db.query<{ pid: number }>('select pg_backend_pid() as pid');
  let looking: Promise<string | null> = Promise.resolve(null);
  const look = setTimeout(() => {
    looking = findBlocker(address, self!.pid, { silence, signal }).catch(() => null);
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

async function seedTransitions(db: Queryable): Promise<void> {
  await db.query(
    `insert into status_transitions (from_status, to_status)
     select * from unnest($1::text[], $2::text[]) on conflict do nothing`,
    [TRANSITIONS.map(([from]) => from), TRANSITIONS.map(([, to]) => to)],
  );
}

/**
 * Creates the partitions that are due.
 * @throws when a reader or another node has the lock for more than 2 s; the next run creates them
 */
export async function makePartitions(
  address: DatabaseAddress,
  nowMs: number,
  abortOptions: AbortOptions = {},
): Promise<void> {
  const client = await connectAsOwner(address, 'partitions', abortOptions);
  try {
    await client.query(`set lock_timeout = '2s'`);
    const db = clientQueries(client);
    await lockMigrations(db);
    await ensurePartitions(db, nowMs);
  } finally {
    await client.end();
  }
}
