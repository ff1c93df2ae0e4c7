/**
 * The database of a running service: the embedded engine or the one of DATABASE_URL, behind one interface. Takes the
 * data directory's lock in both cases, so that a data directory has one service.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import packageFile from '../../package.json' with { type: 'json' };
import { failpoint } from '../lib/failpoint.ts';
import type { Config } from '../config/config.ts';
import type { World } from '../lib/world.ts';
import { type User, userBeside } from './machine/privileges.ts';
import {
  clientQueries,
  connectAsOwner,
  Database,
  type DatabaseAddress,
  type WorkerTasks,
} from '../database/database.ts';
import {
  type ConnectionNeeds,
  connectionNeeds,
  readFreeBytes,
  findLocalDataDirectory,
  findConnectionsProblem,
} from '../database/server/capacity.ts';
import { findNewDatabaseProblem, writeDatabaseNote } from '../database/server/database-note.ts';
import { withoutPassword } from '../database/server/address.ts';
import { untilAborted } from '../database/server/watched-session.ts';
import { openUnderLock } from '../database/embedded/engine.ts';
import { prepareDataDir } from '../database/embedded/layout.ts';
import { takeLock, waitUntilNoArrival } from '../database/embedded/lock.ts';
import type { ServiceAddresses } from '../database/embedded/problem.ts';
import { findOrCreateInstanceId, readSecretKey } from '../secrets/secret-key-file.ts';
import { type BackUpBeforeMigration, migrate, type MigrationResult } from '../migration/migrate.ts';
import { expireWorker, listWorkers } from '../delivery/queue/worker-store.ts';
import {
  DatabaseMoved,
  type Departure,
  EMBEDDED_NAME,
  MoveUnfinished,
  settingForDatabase,
} from '../database/server/move-marks.ts';
import { followMove } from '../move/move-watch.ts';

/** Time within which the mover opens the new database. */
const OPEN_WITHIN_MS = 60_000;
const RETRY_AFTER_MS = 500;
const WORKERS_STAY_ROOT =
  'workers stay root, because only root may enter the folder of the database or log in there; run Letterhaus as an ordinary user';

export type ServiceDatabase = AsyncDisposable & {
  /** Connections of the supervisor. Workers open their own. */
  db: Database;
  /** Address with the rights of the owner, for partitions. */
  address: DatabaseAddress;
  /** Log-in of the workers, and the role that they set afterwards. */
  login: { address: DatabaseAddress; role: string | null };
  /** System user of the workers, or null for the user that started the service, who is not root. */
  workerUser: User | null;
  secretKey: string;
  instance: string;
  dataDir: string;
  description: string;
  /** Returns the free bytes on the database's disk; null when it is unknown or on another machine. */
  readFreeDiskBytes(): Promise<number | null>;
  publishAddresses(info: Partial<ServiceAddresses>): void;
  /** Resolves with a sentence when the database has ended and does not come back. */
  failed: Promise<string>;
  /** Releases the work of a dead worker of this service at once. */
  expire: (leaseId: string) => Promise<void>;
};

type OpenedDatabase = {
  address: DatabaseAddress;
  /** Returns the system user of the workers, which depends on whether they have a log-in of their own. */
  workerUser(hasOwnLogin: boolean): User | null;
  description: string;
  /** For the note in the data directory (database/server/database-note.ts). */
  databaseName: string;
  dataDir: string;
  failed: Promise<string>;
  publishAddresses(info: Partial<ServiceAddresses>): void;
  readFreeDiskBytes(): Promise<number | null>;
  close(): Promise<void>;
};

type OpenOptions = {
  log: Logger;
  world: World;
  tasks: WorkerTasks;
  /** Ends the opening, whatever it waits for, and closes everything that was opened. */
  signal: AbortSignal;
};

/**
 * Opens and migrates the database, and releases the work of a killed predecessor on this data directory.
 * @throws the reason of the signal when that is aborted
 */
export async function openServiceDatabase(
  config: Config,
  options: OpenOptions,
): Promise<ServiceDatabase> {
  const followed = new Set<string>();
  let currentConfig = config;
  for (let waitedMs = 0; ;) {
    try {
      return await openConfigured(currentConfig, options);
    } catch (error) {
      const departure = error instanceof DatabaseMoved ? error.departure : null;
      if (departure !== null && !followed.has(departure.moveId)) {
        followed.add(departure.moveId);
        currentConfig = followMove(currentConfig, departure);
        logFollowed(departure, options.log);
        continue;
      }
      // The mover opens the new database in a moment or is repeated. During an undo, both databases are closed.
      const isExpected = departure !== null || error instanceof MoveUnfinished;
      if (followed.size === 0 || !isExpected || waitedMs >= OPEN_WITHIN_MS) throw error;
      await pause(RETRY_AFTER_MS, null, { signal: options.signal }).catch(() => {});
      options.signal.throwIfAborted();
      waitedMs += RETRY_AFTER_MS;
      if (departure === null) continue;
      currentConfig = config;
      followed.clear();
    }
  }
}

function logFollowed({ databaseName }: Departure, log: Logger): void {
  log.warn(
    { database: databaseName },
    `the database was moved, and this node follows; ${settingForDatabase(databaseName)} before the old one is removed`,
  );
}

async function openConfigured(config: Config, options: OpenOptions): Promise<ServiceDatabase> {
  const { signal } = options;
  const needs = connectionNeeds(options.tasks);
  const opened =
    config.databaseUrl === null
      ? await openEmbedded(config, needs, options)
      : await openExternal(config, config.databaseUrl, options);
  let db: Database | null = null;
  try {
    signal.throwIfAborted();
    const migrated = await migrateOpened(opened, config, options);
    const login = chooseLogin(opened.address, migrated, options.log);
    db = new Database(login.address, { role: login.role, name: 'supervisor' });
    return await completeDatabase(
      opened,
      { db, login, needs, secretKey: migrated.secretKey },
      options,
    );
  } catch (error) {
    await db?.close();
    await opened.close();
    // A statement that the abort interrupted fails with an error of its own.
    signal.throwIfAborted();
    throw error;
  }
}

async function migrateOpened(
  { address, dataDir, databaseName }: OpenedDatabase,
  config: Config,
  options: OpenOptions,
): Promise<MigrationResult & { secretKey: string }> {
  const { log, world, signal } = options;
  const migrated = await migrate(address, {
    nowMs: world.now(),
    acceptAnyDurability: config.acceptDatabaseDurability,
    newDatabaseProblem: findNewDatabaseProblem(dataDir),
    log: (sentence) => log.warn(sentence),
    signal,
    secretKey: { dataDir, configured: config.secretKey },
    backUp: createBackUp(address, { config, dataDir, options }),
  });
  const { secretKey } = migrated;
  if (secretKey === null) throw new Error('a service needs a secret key');
  writeDatabaseNote(dataDir, databaseName);
  const { length: migrations } = migrated.applied;
  if (migrations > 0) log.info({ migrations }, 'the database was migrated');
  return { ...migrated, secretKey };
}

type Connected = Pick<ServiceDatabase, 'db' | 'login' | 'secretKey'> & { needs: ConnectionNeeds };

/** Checks the limits of the server, and releases the work of killed predecessors. */
async function completeDatabase(
  opened: OpenedDatabase,
  { db, login, secretKey, needs }: Connected,
  { log, signal }: OpenOptions,
): Promise<ServiceDatabase> {
  const problem = await untilAborted(findConnectionsProblem(db, needs), signal);
  if (problem !== null) log.warn(problem);
  const workerUser = opened.workerUser(login.role === null);
  if (workerUser === null && process.geteuid?.() === 0) log.warn(WORKERS_STAY_ROOT);
  const instance = findOrCreateInstanceId(opened.dataDir);
  await untilAborted(expirePredecessors(db, instance, log), signal);
  return {
    ...opened,
    db,
    login,
    workerUser,
    instance,
    secretKey,
    expire: (leaseId) => expireDeadWorker(db, leaseId, log),
    [Symbol.asyncDispose]: async () => {
      await db.close();
      await opened.close();
    },
  };
}

function createBackUp(
  address: DatabaseAddress,
  parts: { config: Config; dataDir: string; options: OpenOptions },
): BackUpBeforeMigration | undefined {
  const { config, dataDir, options } = parts;
  const { log, world, signal } = options;
  if (config.migrateWithoutBackup) return undefined;
  return async (need) => {
    // Loaded only for the few starts that need it.
    const { backupBeforeMigration } = await import('../backup/before-migration.ts');
    const backUp = backupBeforeMigration({
      address,
      dataDir,
      secretKey: () => config.secretKey ?? readSecretKey(dataDir),
      backup: config.backup,
      version: packageFile.version,
      world,
      log: (sentence) => log.warn(sentence),
      signal,
    });
    await backUp(need);
  };
}

/** Logs in as a role that owns nothing if the server allows it. Otherwise logs in as the owner and sets the role. */
function chooseLogin(
  address: DatabaseAddress,
  { role, login }: MigrationResult,
  log: Logger,
): ServiceDatabase['login'] {
  if (login !== null && 'address' in login) return { address: login.address, role: null };
  const reason = login?.problem ?? 'the owner cannot make a role for them';
  log.warn({ reason, role }, 'workers log in to the database as its owner and set a role');
  return { address, role };
}

async function openEmbedded(
  config: Config,
  { connectionsMax }: ConnectionNeeds,
  { log, world, signal }: OpenOptions,
): Promise<OpenedDatabase> {
  const dataDir = prepareDataDir(config.dataDir, (line) => log.warn(line));
  await waitUntilNoArrival(dataDir, world, signal);
  const engine = await openUnderLock(await takeLock(dataDir, world, signal), {
    dataDir,
    world,
    connectionsMax,
    log: (line, level) => log[level ?? 'info'](line),
    signal,
    archivesWal: config.backup.pointInTime.to !== null,
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
  const failed = new Promise<string>((resolve) => engine.onExit(resolve));
  return {
    address: engine.address(),
    workerUser: () => engine.owner,
    description: `PostgreSQL ${engine.version}, embedded`,
    databaseName: EMBEDDED_NAME,
    dataDir,
    failed,
    publishAddresses: (info) => engine.publish(info),
    readFreeDiskBytes: () => readFreeBytes(engine.databaseDir),
    close: () => engine.stop('fast'),
  };
}

async function openExternal(
  config: Config,
  url: string,
  { log, world, signal }: OpenOptions,
): Promise<OpenedDatabase> {
  const dataDir = prepareDataDir(config.dataDir, (line) => log.warn(line));
  const lock = await takeLock(dataDir, world, signal);
  const closing = new AbortController();
  const address = { connectionString: url };
  return {
    address,
    workerUser: (hasOwnLogin) => userBeside(url, { dataDir, hasOwnLogin }),
    description: withoutPassword(url),
    databaseName: withoutPassword(url),
    dataDir,
    failed: new Promise(() => {}),
    publishAddresses: (info) => lock.publish(info),
    readFreeDiskBytes: createReadFreeBytes(address, closing.signal),
    close: async () => {
      closing.abort();
      lock.release();
    },
  };
}

/** Queries the data directory of the server once, as soon as the server answers. */
function createReadFreeBytes(
  address: DatabaseAddress,
  signal: AbortSignal,
): () => Promise<number | null> {
  let folder: string | null | undefined;
  const findFolder = async (): Promise<string | null> => {
    const client = await connectAsOwner(address, 'space', { signal });
    try {
      return await findLocalDataDirectory(clientQueries(client));
    } finally {
      await client.end();
    }
  };
  return async () => {
    if (folder === undefined) folder = await findFolder();
    return folder === null ? null : readFreeBytes(folder);
  };
}

/** Expires workers of this installation. The caller has the lock of the data directory, so they are dead. */
async function expirePredecessors(db: Database, instance: string, log: Logger): Promise<void> {
  for (const node of await listWorkers(db)) {
    if (node.instance !== instance) continue;
    const freed = await expireWorker(db, { id: node.id, beat: null });
    log.info(
      { node: node.id, freed },
      'this node released the work of a worker that an earlier start left',
    );
  }
}

async function expireDeadWorker(db: Database, leaseId: string, log: Logger): Promise<void> {
  try {
    failpoint('expire_before_commit');
    const freed = await expireWorker(db, { id: leaseId, beat: null });
    log.warn({ node: leaseId, freed }, 'a worker died; the supervisor released its work');
  } catch (error) {
    // The database is unavailable. A node finds the dead worker by its missing heartbeat later.
    log.warn(
      { err: error, node: leaseId },
      'the supervisor could not release the work of a dead worker; a node releases it after 15 s without a heartbeat',
    );
  }
}
