/**
 * The embedded PostgreSQL: from a data directory to a database that answers.
 *
 * Promises: one service per data directory; every commit is on disk (fsync, full_page_writes);
 * only the user who started it can connect; a server that dies is started again; one left by a
 * killed service is taken over. Reads in this order: layout.ts (folders), lock.ts (one holder),
 * binaries.ts (the programs), cluster.ts (initdb, settings), leftover.ts (what was left behind),
 * postmaster.ts (the process), supervisor.ts (keeps it running). The CLI comes in through
 * running.ts.
 */
import { totalmem } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { DEFAULT_SEARCH, findEngine, installEngine, type EngineSearch } from './binaries.ts';
import { addressOf, ensureDatabase, urlOf } from './client.ts';
import { clusterMajor, ensureCluster, requireMajor, writeConfig } from './cluster.ts';
import type { Owner } from './folders.ts';
import { CLOSED_PARENT_HOME, prepareDataDir, prepareLayout } from './layout.ts';
import { startPostmaster } from './leftover.ts';
import { takeLock, type DataDirLock } from './lock.ts';
import { commandLine, stopPostmaster } from './postmaster.ts';
import type { Setup, StopMode } from './postmaster.ts';
import { boundLog } from './server-log.ts';
import { memoryOf, type Sizing } from './sizing.ts';
import { PORT, dropSocketDir } from './socket-dir.ts';
import { Supervisor } from './supervisor.ts';
import type { Clock } from './wait.ts';

const STALE_PID_WAIT_MS = 10_000;

export type EngineOptions = {
  dataDir: string;
  /** Takes one sentence for the operator. */
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
    /** Whom the database runs as; null: as the user who started us. */
    owner: Owner | null;
    /** The postmaster's process id, which changes when it had to be started again. */
    readonly pid: number;
    /** Tells a second start and the CLI where the service answers. */
    publish(info: { url: string }): void;
    /** The server died too often and was given up: the service has to end. */
    onExit(listener: (reason: string) => void): void;
    /** Stops the server and lets go of the data directory. `fast` unless told. */
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

/** The same for somebody who holds the lock, which is released when this fails or stops. */
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
    const supervisor = new Supervisor(setup, first, stop);
    return engineOf({ lock, setup, supervisor, version, adopted: first.adopted });
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
  supervisor: Supervisor;
  version: string;
  adopted: boolean;
};

function engineOf({ lock, setup, supervisor, version, adopted }: Parts): Engine {
  const { dataDir, databaseDir, logFile, owner, socketDir } = setup.layout;
  let stopped: Promise<void> | null = null;
  const end = async (mode: StopMode) => {
    try {
      await supervisor.stop(mode);
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
      return supervisor.pid;
    },
    publish: (info) => lock.publish(info),
    onExit: (listener) => supervisor.onExit(listener),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  };
}

export function connectionThrough(socketDir: string): Connection {
  return {
    socketDir,
    port: PORT,
    connection: (database, user) => addressOf(socketDir, database, user),
    url: (database, user) => urlOf(socketDir, database, user),
  };
}
