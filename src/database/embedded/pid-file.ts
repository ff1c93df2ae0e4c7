/** Reads `postmaster.pid`, the file by which a server claims its cluster. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isPostgresOf } from './process.ts';

/** Content of postmaster.pid. `pid` is null when PostgreSQL did not write the file. */
export type PidFile = { pid: number | null; status: string };

export function readPidFile(pgDir: string): PidFile | null {
  try {
    const lines = readFileSync(join(pgDir, 'postmaster.pid'), 'utf8').split('\n');
    const pid = Math.abs(Number(lines[0])); // negative in single-user mode
    return { pid: pid > 0 ? pid : null, status: lines[7]?.trim() ?? '' };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

export function killServerOf(pgDir: string): void {
  const pid = readPidFile(pgDir)?.pid ?? null;
  if (pid !== null && isPostgresOf(pid, pgDir)) process.kill(pid, 'SIGKILL');
}
