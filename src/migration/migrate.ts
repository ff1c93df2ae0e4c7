/**
 * Migrates a database to the schema of this version: migrations/ in order, under a lock. Each migration is a
 * transaction that waits at most a second for a lock. An empty database takes all in one transaction. Forward only. A
 * database that is ahead of the code is used unchanged, unless it requires newer code (schema-version.ts).
 *
 * The owner's connection that runs this owns schema and partitions. The service works in roles that can only read and
 * write rows, if the server permits creating them (database/server/database-roles.ts).
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
import { isServerUnsuitable, requireSessions } from '../database/server/connect.ts';
import { refuseUnusable } from '../database/server/move-marks.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';
import { type LoginResult, makeAppRole, makeLogin } from '../database/server/database-roles.ts';
import { runStep, type StepOptions } from './schema-step.ts';
import { keyEarlierLists } from './migrate-addresses.ts';
import { beginEpochOfNewSystem } from '../events/order-store.ts';
import { type Migration, readMigrationsAfter } from './effects.ts';
import { ensurePartitions } from '../database/partitions.ts';
import {
  checkSecretKey,
  firstSecretKey,
  type SecretKeyLocation,
  readOrCreateSecretKey,
} from '../secrets/key-check-store.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import {
  listOlderNodes,
  MIGRATIONS_DIR,
  findNewestMigration,
  findOutdatedProblem,
  readRequiredSchema,
} from './schema-version.ts';

const SCHEMA_TABLE = 'schema_migrations';
/**
 * Older nodes check every few seconds (service/maintenance/node-watch.ts) and stop within 30 s
 * (service/pool/worker-pool.ts).
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
  login: LoginResult | null;
  /** Secret key of the database, created for a new one; null if not requested. */
  secretKey: string | null;
};

export type MigrateOptions = AbortOptions & {
  nowMs: number;
  acceptAnyDurability: boolean;
  /** Why an empty database must not become an installation (database/server/database-note.ts), or null when it may. */
  newDatabaseProblem?: string | null;
  /**
   * For a service. The key must be the key of the database. The login role of workers is derived from it
   * (database/server/database-roles.ts).
   */
  secretKey?: SecretKeyLocation;
  backUp?: BackUpBeforeMigration | undefined;
  log?: (sentence: string) => void;
  folder?: string;
  triesMax?: number;
};

/**
 * @property version schema version of the database
 * @property migrations the migrations that need the backup
 */
export type BackUpBeforeMigration = (need: {
  version: number;
  migrations: readonly Migration[];
}) => Promise<void>;

/**
 * Migrates, creates partitions, and seeds the tables that mirror code. Waits while another node migrates.
 * @throws RefusedDatabase when the database requires newer code, may lose commits, or is locked, or when the backup
 *   that a migration asks for fails; then nothing was migrated
 * @throws SecretKeyProblem when the secret key is not the key of the database; then nothing was changed
 * @throws DatabaseUnavailable
 */
export async function migrate(
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<MigrationResult> {
  const { silence, signal, secretKey: secretKeyLocation } = options;
  const connect = () => connectAsOwner(address, 'migrate', { silence, signal });
  const client = await connect();
  const db = clientQueries(client);
  try {
    await requireSessions(client, connect).catch((error: unknown) => {
      throw isServerUnsuitable(error) ? error : translateError(error);
    });
    await refuseServer(db, options);
    // Another node's migration may take any time, so this wait has no limit.
    await db.query('set lock_timeout = 0');
    await lockMigrations(db);
    await refuseUnusable(db);
    if (secretKeyLocation !== undefined) await checkSecretKey(db, secretKeyLocation);
    const applied = await applyMigrations(db, address, options);
    // Still under the lock: when several nodes begin on an empty database, one creates the key.
    const secretKey =
      secretKeyLocation === undefined ? null : await readOrCreateSecretKey(db, secretKeyLocation);
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

/** @throws RefusedDatabase when the server is too old, or may lose commits */
export async function refuseServer(
  db: Queryable,
  { acceptAnyDurability }: Pick<MigrateOptions, 'acceptAnyDurability'>,
): Promise<void> {
  await refuseOldServer(db);
  if (!acceptAnyDurability) await refuseUnsafeServer(db);
}

async function refuseOldServer(db: Queryable): Promise<void> {
  const [row] = await db.query<{ number: number; text: string }>(
    `select current_setting('server_version_num')::int as number,
            current_setting('server_version') as text`,
  );
  if (row && row.number >= 150_000) return;
  throw new RefusedDatabase(`PostgreSQL 15 or newer is needed. This server is ${row?.text}.`);
}

/** Refuses a server that may lose a commit: a 202 promises that the email is on disk. */
async function refuseUnsafeServer(db: Queryable): Promise<void> {
  const settings = await db.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('fsync', 'full_page_writes')`,
  );
  const off = ['fsync', 'full_page_writes'].filter(
    (name) => settings.find((row) => row.name === name)?.setting !== 'on',
  );
  if (off.length === 0) return;
  throw new RefusedDatabase(
    `The database does not guarantee what it commits (${off.join(' and ')} not on). ` +
      'Turn it on, or set LETTERHAUS_ACCEPT_DATABASE_DURABILITY=1 if another layer provides the guarantee.',
  );
}

async function applyMigrations(
  db: Queryable,
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<{ version: number; applied: string[] }> {
  const { folder = MIGRATIONS_DIR, nowMs, triesMax, log = () => {}, silence, signal } = options;
  const step = (name: string, run: () => Promise<unknown>): Promise<void> =>
    runStep(db, { name, run }, { address, log, triesMax, silence, signal });
  const newest = findNewestMigration(folder);
  const currentVersion = await readVersion(db);
  if (currentVersion > 0) await refuseOutdatedCode(db, newest);
  else if (options.newDatabaseProblem) throw new RefusedDatabase(options.newDatabaseProblem);
  const finish = async (): Promise<void> => {
    if (currentVersion <= newest) await seedTransitions(db);
    await keyEarlierLists(db);
    await beginEpochOfNewSystem(db);
    await ensurePartitions(db, nowMs);
  };
  const version = Math.max(currentVersion, newest);
  if (currentVersion >= newest) {
    await step('making partitions', finish);
    return { version, applied: [] };
  }
  const postgrator = await createPostgrator(folder, db);
  const pending = (await postgrator.getMigrations()).filter(
    (each) => each.version > currentVersion,
  );
  if (currentVersion === 0) {
    await step('the first migration', () => postgrator.migrate().then(finish));
  } else {
    await postgrator.validateMigrations(currentVersion);
    await backUpIfNeeded(db, { currentVersion, folder, backUp: options.backUp });
    for (const migration of pending) {
      const name = `migration ${basename(migration.filename)}`;
      const requiredBefore = await readRequiredSchema(db);
      await step(name, () => postgrator.runMigrations([migration]));
      const required = await readRequiredSchema(db);
      if (required > requiredBefore) await waitForOlderNodes(db, required, { log, signal });
    }
    await step('making partitions', finish);
  }
  return { version, applied: pending.map(({ filename }) => filename) };
}

/** Less than HOLDER_IDLE_MAX_MS, so that the lock is kept. */
const KEEP_LOCK_EVERY_MS = 5_000;

/** Makes the backup under the lock, so that only one of several nodes makes it. */
async function backUpIfNeeded(
  db: Queryable,
  {
    currentVersion,
    folder,
    backUp,
  }: { currentVersion: number; folder: string; backUp: BackUpBeforeMigration | undefined },
): Promise<void> {
  const needingBackup = readMigrationsAfter(currentVersion, folder).filter(
    (each) => each.backupReason !== null,
  );
  if (needingBackup.length === 0 || backUp === undefined) return;
  const keepLockTimer = setInterval(() => {
    // If the session has ended, the next statement fails with that reason.
    db.query('select 1').catch(() => {});
  }, KEEP_LOCK_EVERY_MS);
  try {
    await backUp({ version: currentVersion, migrations: needingBackup });
  } finally {
    clearInterval(keepLockTimer);
  }
}

/**
 * Brings an empty or older schema to a version, in the transaction of the caller. A restore fills the schema of a
 * backup before it is migrated to the current one.
 */
export async function migrateTo(db: Queryable, version: number): Promise<void> {
  const postgrator = await createPostgrator(MIGRATIONS_DIR, db);
  await postgrator.migrate(String(version));
}

/** Returns the schema version; 0 when nothing was migrated yet. */
export async function readVersion(db: Queryable): Promise<number> {
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
async function createPostgrator(folder: string, db: Queryable): Promise<Postgrator> {
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
  const problem = findOutdatedProblem(await readRequiredSchema(db), known);
  if (problem !== null) throw new RefusedDatabase(problem);
}

/**
 * Waits until older nodes have noticed that they have to stop, and settled their work. The next migration removes
 * something that their code needs. Rows of killed workers remain, so the wait also ends when no heartbeat changes.
 */
async function waitForOlderNodes(
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
      log(
        `waiting for ${workers.length} workers of an older version to stop before the next migration`,
      );
    }
    heartbeats = new Map(workers.map(({ id, beat }) => [id, beat]));
    await pause(1_000, null, { signal });
  }
  log('workers of an older version have not ended; the migration continues');
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
export async function createPartitions(
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
