/**
 * The embedded PostgreSQL: from a data directory to a database that answers.
 *
 * Guarantees: one service per data directory; every commit is on disk (fsync, full_page_writes);
 * only the user who started it can connect; a server that exits is started again; one left by a
 * killed service is taken over. A CLI command uses the server of the service that runs on the data
 * directory or, when none does, one of its own that ends with the command.
 * The order of the steps: layout.ts (folders), lock.ts (one holder), binaries.ts (the programs),
 * cluster.ts (initdb, settings), running-server.ts (takes over or starts), postmaster.ts (the process).
 */
import { totalmem } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { DEFAULT_SEARCH, findEngine, installEngine, type EngineSearch } from './binaries.ts';
import { clusterMajor, ensureCluster, memoryOf, requireMajor } from './cluster.ts';
import { type Sizing, writeConfig } from './cluster.ts';
import type { Owner } from './folders.ts';
import {
  CLOSED_PARENT_HOME,
  dropSocketDir,
  PORT,
  prepareDataDir,
  prepareLayout,
} from './layout.ts';
import { alreadyRunning, type DataDirLock, readRunning, takeLock, tryLock } from './lock.ts';
import { addressOf, boundLog, commandLine, ensureDatabase, urlOf } from './postmaster.ts';
import { type Setup, stopPostmaster, type StopMode } from './postmaster.ts';
import { type Clock, poll } from './process.ts';
import { RunningServer, startPostmaster } from './running-server.ts';

const STALE_PID_WAIT_MS = 10_000;

export type EngineOptions = {
  dataDir: string;
  /** Logs one sentence for the operator. */
  log: (line: string) => void;
  world: Clock;
  /** The connections of the service at the most, and its workers; a command needs few. */
  load?: { most: number; workers: number };
  /** Where to look for the programs; tests look elsewhere. */
  search?: EngineSearch;
  /** Where root's database goes when the data directory lies in a closed folder. */
  closedParentHome?: string;
  stalePidWaitMs?: number;
};

/** How to reach the database. User and database are `posthorn`, the superuser, unless given. */
export type Connection = {
  socketDir: string;
  port: number;
  connection(database?: string, user?: string): pg.ClientConfig;
  /** The same as a URL, as psql understands it. */
  url(database?: string, user?: string): string;
};

export type Engine = Connection &
  AsyncDisposable & {
    /** Of the server: `18.4`. */
    version: string;
    /** Left running by a killed service and taken over. */
    adopted: boolean;
    dataDir: string;
    /** Where the database lives; differs from dataDir for root below a closed folder. */
    databaseDir: string;
    logFile: string;
    /** The user that the database runs as; null: the user of this process. */
    owner: Owner | null;
    /** The postmaster's process id, which changes when it had to be started again. */
    readonly pid: number;
    /** Publishes the address of the service for a second start and the CLI. */
    publish(info: { url: string }): void;
    /** Called when the server exited too often and is not started again: the service has to end. */
    onExit(listener: (reason: string) => void): void;
    /** Stops the server and releases the data directory. `fast` when not given. */
    stop(mode?: StopMode): Promise<void>;
  };

/**
 * Opens the database of a data directory, which is made if need be.
 * @throws EngineProblem with a sentence for the operator; `running` names the service that is there
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const dataDir = prepareDataDir(options.dataDir);
  return openUnderLock(await takeLock(dataDir, options.world), options);
}

/** The same for a caller that holds the lock, which is released when this fails or stops. */
export async function openUnderLock(lock: DataDirLock, options: EngineOptions): Promise<Engine> {
  const stop = new AbortController();
  try {
    const setup = await prepare(lock.dataDir, options, stop.signal);
    const first = await startPostmaster(setup);
    const version = await ensureDatabase(setup.layout.socketDir).catch(async (error: unknown) => {
      await stopPostmaster(first, 'fast', setup.clock);
      throw error;
    });
    const { socketDir } = setup.layout;
    lock.publish({ engine: { socketDir, port: PORT } });
    const server = new RunningServer(setup, first, stop);
    return engineOf({ lock, setup, server, version, adopted: first.adopted });
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Everything up to the start of the server: folders, programs, cluster, settings. */
async function prepare(
  dataDir: string,
  options: EngineOptions,
  signal: AbortSignal,
): Promise<Setup> {
  const { log, world, search = DEFAULT_SEARCH } = options;
  const layout = prepareLayout(dataDir, options.closedParentHome ?? CLOSED_PARENT_HOME, log);
  const source = findEngine(search, clusterMajor(layout.pgDir));
  requireMajor(layout.pgDir, source.major);
  const binDir = await installEngine(source, layout.databaseDir);
  await ensureCluster(layout, binDir);
  boundLog(layout.logFile);
  return {
    layout,
    program: join(binDir, 'postgres'),
    ...commandLine(layout, source.version, writeConfig(layout.databaseDir, sizingFor(options))),
    log,
    clock: world,
    stalePidWaitMs: options.stalePidWaitMs ?? STALE_PID_WAIT_MS,
    signal,
  };
}

function sizingFor({ load = { most: 0, workers: 1 } }: EngineOptions): Sizing {
  const memoryBytes = memoryOf(totalmem(), process.constrainedMemory());
  return { connections: load.most, workers: load.workers, memoryBytes };
}

type Parts = {
  lock: DataDirLock;
  setup: Setup;
  server: RunningServer;
  version: string;
  adopted: boolean;
};

function engineOf({ lock, setup, server, version, adopted }: Parts): Engine {
  const { dataDir, databaseDir, logFile, owner, socketDir } = setup.layout;
  let stopped: Promise<void> | null = null;
  const end = async (mode: StopMode) => {
    try {
      await server.stop(mode);
      dropSocketDir(socketDir, databaseDir);
    } finally {
      lock.release();
    }
  };
  const stop = (mode: StopMode = 'fast') => (stopped ??= end(mode));
  return {
    ...connectionThrough(socketDir),
    version,
    adopted,
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

function connectionThrough(socketDir: string): Connection {
  return {
    socketDir,
    port: PORT,
    connection: (database, user) => addressOf(socketDir, database, user),
    url: (database, user) => urlOf(socketDir, database, user),
  };
}

/** For a service to come up, or another command to end. */
const COMMAND_WAIT_MS = 60_000;

export type RunningConnection = Connection &
  AsyncDisposable & {
    /** Whether the engine is the service's; else it was started for this command. */
    shared: boolean;
  };

/**
 * Connects to the database of a data directory without disturbing a service that runs on it.
 * Dispose of it: that stops an engine which was started for the command.
 */
export async function connectRunning(options: EngineOptions): Promise<RunningConnection> {
  const dataDir = prepareDataDir(options.dataDir);
  const found = await poll<RunningConnection>(
    { clock: options.world, timeoutMs: COMMAND_WAIT_MS, everyMs: 50 },
    async () => {
      const lock = tryLock(dataDir, 'command');
      if (lock) return { ...(await openUnderLock(lock, options)), shared: false };
      const holder = readRunning(dataDir);
      // The engine of another command ends with it: wait for the lock instead.
      if (holder?.kind !== 'service' || holder.engine === null) return null;
      return {
        ...connectionThrough(holder.engine.socketDir),
        shared: true,
        [Symbol.asyncDispose]: async () => {},
      };
    },
  );
  if (found) return found;
  throw alreadyRunning(dataDir, readRunning(dataDir));
}
