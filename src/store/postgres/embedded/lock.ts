/**
 * One holder per data directory.
 *
 * The lock is SQLite's RESERVED lock on an empty file: an fcntl lock, which the kernel grants to
 * exactly one process and takes back at its death, `kill -9` included. It needs no native module,
 * works on Linux and macOS and between containers that share a volume, and no child inherits it.
 * docs/decisions/0002 has the reasons against a pid file, a socket or O_EXLOCK. No other code may open
 * the file: closing any descriptor of it would release the lock (POSIX).
 * `running.json` beside it names the holder, so that other processes can show it and use its engine.
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
  /** Publishes facts about the holder; those that are not given stay as they were. */
  publish(info: Partial<Pick<RunningInfo, 'url' | 'engine'>>): void;
  release(): void;
};

/** Referenced for the life of the process: a collected DatabaseSync would release its lock. */
const held = new Set<DatabaseSync>();

/** Takes the lock, or null when another process (or this one) has it. */
export function tryLock(dataDir: string, kind: RunningInfo['kind']): DataDirLock | null {
  const file = join(dataDir, 'lock');
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // IMMEDIATE, not EXCLUSIVE: two that want EXCLUSIVE at once can both be refused.
    database.exec('pragma journal_mode = memory; begin immediate');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null;
    throw error;
  }
  held.add(database);
  // Others may pass through the directory: a read lock on this file would keep us out of it.
  chmodSync(file, 0o600);
  return holding(database, dataDir, { pid: process.pid, kind, url: null, engine: null });
}

function holding(database: DatabaseSync, dataDir: string, info: RunningInfo): DataDirLock {
  writeRunning(dataDir, info);
  return {
    dataDir,
    publish(changed) {
      Object.assign(info, changed);
      writeRunning(dataDir, info);
    },
    release() {
      if (!held.delete(database)) return;
      rmSync(runningFile(dataDir), { force: true });
      database.close();
    },
  };
}

/**
 * Takes the lock for a service. A command that holds it is waited for; another service is a
 * `running` problem that carries its address and pid.
 */
export async function takeLock(dataDir: string, clock: Clock): Promise<DataDirLock> {
  const lock = await poll({ clock, timeoutMs: COMMAND_WAIT_MS }, () => {
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
    `Posthorn is already running on ${dataDir} (${who}): use it, stop it first, or set POSTHORN_DATA_DIR to another folder.`,
    holder,
  );
}

/** What the holder of the lock published; null: not yet, of another user, or no longer alive. */
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
  const fresh = `${runningFile(dataDir)}.new`;
  writeFileSync(fresh, JSON.stringify(info), { mode: 0o600 });
  renameSync(fresh, runningFile(dataDir));
}

function runningFile(dataDir: string): string {
  return join(dataDir, 'running.json');
}
