/**
 * The lock of a data directory, which one process has.
 *
 * It is SQLite's RESERVED lock on an empty file: an fcntl lock, which the kernel grants to one process and releases
 * when the process ends, even by `kill -9`. It needs no native module, works on Linux and macOS and between containers
 * that share a volume, and children do not inherit it. docs/decisions/0002 lists the reasons against a pid file, a
 * socket or O_EXLOCK. No other code may open the file: closing any descriptor of it would release the lock (POSIX).
 *
 * running.json describes the holder, so that other processes can show it and use its engine.
 */
import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { EngineProblem, type RunningInfo } from './problem.ts';
import { type Clock, isAlive, poll } from './process.ts';

const SQLITE_BUSY = 5;
const COMMAND_WAIT_MS = 30_000;

export type DataDirLock = {
  readonly dataDir: string;
  publish(info: Partial<Pick<RunningInfo, 'url' | 'adminSocket' | 'engine'>>): void;
  release(): void;
};

/** Keeps references, because garbage collection of a DatabaseSync would release its lock. */
const openLocks = new Set<DatabaseSync>();

/** Takes the lock; null when any process, including this one, has it. */
export function tryLock(dataDir: string, kind: RunningInfo['kind']): DataDirLock | null {
  const database = tryLockFile(join(dataDir, 'lock'));
  if (database === null) return null;
  return createLock(database, dataDir, {
    pid: process.pid,
    kind,
    url: null,
    adminSocket: null,
    engine: null,
  });
}

/**
 * Takes the lock of a move that creates an embedded database. A service with another database may be running on the
 * data directory. Null when another move has the lock.
 */
export function tryArrivalLock(dataDir: string): DataDirLock | null {
  const database = tryLockFile(join(dataDir, 'arrival.lock'));
  if (database === null) return null;
  return {
    dataDir,
    publish: () => {},
    release: () => {
      if (openLocks.delete(database)) database.close();
    },
  };
}

export async function waitUntilNoArrival(
  dataDir: string,
  clock: Clock,
  signal?: AbortSignal,
): Promise<void> {
  const lock = await poll({ clock, timeoutMs: COMMAND_WAIT_MS, signal }, () =>
    tryArrivalLock(dataDir),
  );
  if (lock) return lock.release();
  throw new EngineProblem(
    'running',
    `A move into the embedded database of ${dataDir} is running. Wait until it ends.`,
  );
}

function tryLockFile(file: string): DatabaseSync | null {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // IMMEDIATE, because two concurrent EXCLUSIVE requests can both be refused.
    database.exec('pragma journal_mode = memory; begin immediate');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null;
    throw error;
  }
  openLocks.add(database);
  // Other users may enter the directory. Their read lock on this file would exclude us.
  chmodSync(file, 0o600);
  return database;
}

function createLock(database: DatabaseSync, dataDir: string, info: RunningInfo): DataDirLock {
  writeRunning(dataDir, info);
  return {
    dataDir,
    publish(changed) {
      Object.assign(info, changed);
      writeRunning(dataDir, info);
    },
    release() {
      if (!openLocks.delete(database)) return;
      rmSync(runningFile(dataDir), { force: true });
      database.close();
    },
  };
}

/**
 * Takes the lock for a service. Waits for a command that has it.
 * @throws EngineProblem with address and pid when another service has it
 */
export async function takeLock(
  dataDir: string,
  clock: Clock,
  signal?: AbortSignal,
): Promise<DataDirLock> {
  const lock = await poll({ clock, timeoutMs: COMMAND_WAIT_MS, signal }, () => {
    const taken = tryLock(dataDir, 'service');
    if (taken) return taken;
    const holder = readRunning(dataDir);
    if (holder?.kind === 'service') throw alreadyRunning(dataDir, holder);
    return null;
  });
  if (lock) return lock;
  throw alreadyRunning(dataDir, readRunning(dataDir));
}

export function alreadyRunning(dataDir: string, holder: RunningInfo | null): EngineProblem {
  const where = holder?.url ?? 'its address is not known yet';
  const who = holder ? `pid ${holder.pid}, ${where}` : 'its pid is not known';
  return new EngineProblem(
    'running',
    `Letterhaus is already running on ${dataDir} (${who}): use it, stop it first, or set LETTERHAUS_DATA_DIR to another folder.`,
    holder,
  );
}

/**
 * Returns the published facts of the lock's holder; null when they are unpublished or unreadable, or the holder is
 * dead.
 */
export function readRunning(dataDir: string): RunningInfo | null {
  try {
    const info = JSON.parse(readFileSync(runningFile(dataDir), 'utf8')) as RunningInfo;
    return isAlive(info.pid) ? info : null;
  } catch (error) {
    if (/ENOENT|EACCES/.test((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

function writeRunning(dataDir: string, info: RunningInfo): void {
  const temporaryFile = `${runningFile(dataDir)}.new`;
  writeFileSync(temporaryFile, JSON.stringify(info), { mode: 0o600 });
  renameSync(temporaryFile, runningFile(dataDir));
}

function runningFile(dataDir: string): string {
  return join(dataDir, 'running.json');
}
