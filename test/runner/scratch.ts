/**
 * The folder below which the test files of a run make theirs: in memory where the machine has room for it,
 * else where the system has temporary files. A fresh database is a copy of some 700 files: on a disk
 * that takes seven times as much CPU, and every commit waits for the disk.
 *
 * What a killed run has left in memory is removed by the next run.
 */
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const IN_MEMORY = '/dev/shm';
/** Four jobs were seen to hold 0.8 GB at a time; PostgreSQL and the services need memory as well. */
const ROOM_BYTES = 4 * 1024 ** 3;
const MEMORY_BYTES = 2 * ROOM_BYTES;

/** Makes the folder for what this process starts, for which TMPDIR names it; null: left as it is. */
export function useScratch(): string | null {
  if (process.env['TMPDIR'] || !hasRoom(IN_MEMORY)) return null;
  removeAbandoned(IN_MEMORY);
  const folder = scratchOf(IN_MEMORY, process.pid);
  process.env['TMPDIR'] = folder;
  return folder;
}

export function dropScratch(folder: string | null): void {
  if (folder !== null) rmSync(folder, { recursive: true, force: true });
}

/** @param base exported for its test, like the other two */
export function scratchOf(base: string, pid: number): string {
  const folder = join(base, `letterhaus-run-${pid}`);
  mkdirSync(folder);
  // As /tmp: the database of root's tests runs as another user.
  chmodSync(folder, 0o1777);
  return folder;
}

/** Removes the folders of runs that have ended. */
export function removeAbandoned(base: string): void {
  for (const name of readdirSync(base)) {
    const pid = /^letterhaus-run-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) dropScratch(join(base, name));
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Room, and the right to run programs from there: a service's database runs from its data folder. */
export function hasRoom(base: string): boolean {
  try {
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .findLast(([, place]) => place === base);
    if (mount?.[2] !== 'tmpfs' || /\b(?:noexec|ro)\b/.test(mount[3] ?? '')) return false;
    const { bavail, bsize } = statfsSync(base);
    return bavail * bsize >= ROOM_BYTES && process.availableMemory() >= MEMORY_BYTES;
  } catch {
    return false; // not on Linux
  }
}
