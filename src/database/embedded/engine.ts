/**
 * The embedded PostgreSQL: from a data directory to a running database.
 *
 * Guarantees: one service per data directory; every commit is on disk (fsync, full_page_writes); only the user who
 * started it can connect; a server that exits is restarted; a server that a killed service left running is adopted. A
 * CLI command uses the server of the service that runs on the data directory. Without one, it runs the engine for its
 * own duration.
 *
 * Steps in order: layout.ts (folders), lock.ts (one holder), binaries.ts (the programs), cluster.ts (initdb, settings),
 * running-server.ts (adopts or starts), postmaster.ts (the process).
 */
import { statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { readFreeBytes as readFree } from '../server/capacity.ts';
import { findNewDatabaseProblem } from '../server/database-note.ts';
import { DEFAULT_SEARCH, findEngine, installEngine, type EngineSearch } from './binaries.ts';
import {
  clusterMajor,
  ensureCluster,
  hasReplicationSlots,
  memoryLimitBytes,
  requireMajor,
} from './cluster.ts';
import { type Sizing, writeConfig } from './cluster.ts';
import type { Owner } from './folders.ts';
import {
  CLOSED_PARENT_HOME,
  removeShortSocketDir,
  SOCKET_PORT,
  prepareDataDir,
  prepareLayout,
  type Layout,
} from './layout.ts';
import { alreadyRunning, type DataDirLock, readRunning, takeLock, tryLock } from './lock.ts';
import { EngineProblem, type ServiceAddresses } from './problem.ts';
import {
  socketAddress,
  rotateLargeLog,
  commandLine,
  ensureDatabase,
  socketUrl,
} from './postmaster.ts';
import { type ServerSetup, stopPostmaster, type StopMode } from './postmaster.ts';
import { type Clock, poll } from './process.ts';
import { RunningServer, startPostmaster } from './running-server.ts';

const STALE_PID_WAIT_MS = 10_000;
/** Disk of a new database: 60 MB for the programs, 58 MB for an empty cluster with its WAL, measured; and a margin. */
const NEW_DATABASE_MB = 130;

export type EngineOptions = {
  dataDir: string;
  /** Logs one sentence for the operator. After a `warn` the database is unavailable until the next sentence. */
  log: (line: string, level?: 'warn') => void;
  world: Clock;
  /** Connections that the service opens at most. */
  connectionsMax?: number;
  search?: EngineSearch;
  /** Parent of root's database when the data directory is below a folder that is closed to others. */
  closedParentHome?: string;
  stalePidWaitMs?: number;
  signal?: AbortSignal;
  /** For a restore: allows a new database even where there was one before. */
  mayReplaceLost?: boolean;
  archivesWal?: boolean;
  /** Free space of a folder's disk. */
  readFreeBytes?: (folder: string) => Promise<number>;
};

/** Addresses of the database. User and database default to `letterhaus`, the superuser. */
export type Connection = {
  socketDir: string;
  port: number;
  address(database?: string, user?: string): pg.ClientConfig;
  url(database?: string, user?: string): string;
};

export type Engine = Connection &
  AsyncDisposable & {
    version: string;
    /** True when a killed service left the server running and this process adopted it. */
    isAdopted: boolean;
    dataDir: string;
    /** Folder of the database. It differs from dataDir for root below a closed folder. */
    databaseDir: string;
    logFile: string;
    owner: Owner | null;
    readonly pid: number;
    publish(info: Partial<ServiceAddresses>): void;
    /** Calls the listener when the server exited too often and is not restarted. The service has to end. */
    onExit(listener: (reason: string) => void): void;
    /** Stops the server and releases the data directory; default mode: `fast`. */
    stop(mode?: StopMode): Promise<void>;
  };

/**
 * Opens the database of a data directory, and creates both if missing.
 * @throws EngineProblem with a sentence for the operator; `running` contains the address of the service
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const dataDir = prepareDataDir(options.dataDir);
  return openUnderLock(await takeLock(dataDir, options.world), options);
}

/** Opens the database for a caller that has the lock. Releases the lock on failure and on stop. */
export async function openUnderLock(lock: DataDirLock, options: EngineOptions): Promise<Engine> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  options.signal?.addEventListener('abort', abort);
  try {
    options.signal?.throwIfAborted();
    const setup = await prepareServer(lock.dataDir, options, stop.signal);
    const postmaster = await startPostmaster(setup);
    const version = await ensureDatabase(setup.layout.socketDir).catch(async (error: unknown) => {
      await stopPostmaster(postmaster, 'fast', setup.clock);
      throw error;
    });
    const { socketDir } = setup.layout;
    lock.publish({ engine: { socketDir, port: SOCKET_PORT } });
    const server = new RunningServer(setup, postmaster, stop);
    return createEngine({ lock, setup, server, version, isAdopted: postmaster.isAdopted });
  } catch (error) {
    lock.release();
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', abort);
  }
}

async function prepareServer(
  dataDir: string,
  options: EngineOptions,
  signal: AbortSignal,
): Promise<ServerSetup> {
  const { log, world, search = DEFAULT_SEARCH } = options;
  const layout = prepareLayout(dataDir, options.closedParentHome ?? CLOSED_PARENT_HOME, log);
  const source = findEngine(search, clusterMajor(layout.pgDir));
  requireMajor(layout.pgDir, source.major);
  if (options.mayReplaceLost !== true) requirePresent(layout);
  if (clusterMajor(layout.pgDir) === null) await requireSpace(layout, options);
  const binDir = await installEngine(source, layout.databaseDir);
  await ensureCluster(layout, binDir);
  rotateLargeLog(layout.logFile);
  const archivesWal = options.archivesWal === true || hasReplicationSlots(layout.pgDir);
  const sizing = await sizingFor(layout, options);
  return {
    layout,
    program: join(binDir, 'postgres'),
    ...commandLine(
      layout,
      source.version,
      writeConfig(layout.databaseDir, sizing, { archivesWal }),
    ),
    log,
    clock: world,
    stalePidWaitMs: options.stalePidWaitMs ?? STALE_PID_WAIT_MS,
    signal,
  };
}

function requirePresent({ pgDir, dataDir }: Layout): void {
  const problem = clusterMajor(pgDir) === null ? findNewDatabaseProblem(dataDir) : null;
  if (problem !== null) throw new EngineProblem('missing', problem);
}

/** Says how much disk a new database takes before it takes it. @throws EngineProblem when the disk has less */
async function requireSpace(
  { databaseDir }: Layout,
  { log, readFreeBytes = readFree }: EngineOptions,
): Promise<void> {
  const freeMb = Math.floor((await readFreeBytes(databaseDir)) / 1e6);
  if (freeMb < NEW_DATABASE_MB) {
    throw new EngineProblem(
      'no-space',
      `A new database needs ${NEW_DATABASE_MB} MB of disk, and ${databaseDir} has ${freeMb} MB free: make space, or set LETTERHAUS_DATA_DIR to a folder on another disk.`,
    );
  }
  log(
    `There is no database yet. It is created in ${databaseDir} with ${NEW_DATABASE_MB} MB of the ${freeMb} MB that are free.`,
  );
}

async function sizingFor(
  { databaseDir }: Layout,
  { connectionsMax = 0 }: EngineOptions,
): Promise<Sizing> {
  const memoryBytes = memoryLimitBytes(totalmem(), process.constrainedMemory());
  const { blocks, bsize } = await statfs(databaseDir);
  return { connections: connectionsMax, memoryBytes, diskBytes: blocks * bsize };
}

type StartedEngine = {
  lock: DataDirLock;
  setup: ServerSetup;
  server: RunningServer;
  version: string;
  isAdopted: boolean;
};

function createEngine({ lock, setup, server, version, isAdopted }: StartedEngine): Engine {
  const { dataDir, databaseDir, logFile, owner, socketDir } = setup.layout;
  let stopping: Promise<void> | null = null;
  const stopAndUnlock = async (mode: StopMode) => {
    try {
      await server.stop(mode);
      removeShortSocketDir(socketDir, databaseDir);
    } finally {
      lock.release();
    }
  };
  const stop = (mode: StopMode = 'fast') => (stopping ??= stopAndUnlock(mode));
  return {
    ...createConnection(socketDir),
    version,
    isAdopted,
    dataDir,
    databaseDir,
    logFile,
    owner,
    get pid() {
      return server.pid;
    },
    publish: (info) => lock.publish(info),
    onExit: (listener) => server.onExit(listener),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  };
}

function createConnection(socketDir: string): Connection {
  return {
    socketDir,
    port: SOCKET_PORT,
    address: (database, user) => socketAddress(socketDir, database, user),
    url: (database, user) => socketUrl(socketDir, database, user),
  };
}

const COMMAND_WAIT_MS = 60_000;

export type RunningConnection = Connection &
  AsyncDisposable & {
    /** true: the engine of the service. false: an engine started for this command. */
    isShared: boolean;
  };

/**
 * Connects to the database of a data directory without affecting a service that runs on it. Disposing stops an engine
 * that was started for the command.
 */
export async function connectRunning(options: EngineOptions): Promise<RunningConnection> {
  const dataDir = prepareDataDir(options.dataDir);
  const connection = await poll<RunningConnection>(
    { clock: options.world, timeoutMs: COMMAND_WAIT_MS, everyMs: 50 },
    async () => {
      const lock = tryLock(dataDir, 'command');
      if (lock) return { ...(await openUnderLock(lock, options)), isShared: false };
      const holder = readRunning(dataDir);
      // The engine of another command ends with it, so wait for the lock.
      if (holder?.kind !== 'service' || holder.engine === null) return null;
      return {
        ...createConnection(holder.engine.socketDir),
        isShared: true,
        [Symbol.asyncDispose]: async () => {},
      };
    },
  );
  if (connection) return connection;
  throw alreadyRunning(dataDir, readRunning(dataDir));
}
