/**
 * Facts about processes that are not our children: alive or not, and whether a pid is the server
 * of a given cluster. A pid alone proves nothing: after a restart of a container the same small
 * number is somebody else.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Whether the pid exists, whoever owns it. A zombie exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Whether the pid is dead but not yet taken off the list by its parent. PostgreSQL takes it for alive. */
export function isZombie(pid: number): boolean {
  try {
    return / Z [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false; // gone altogether, or no Linux
  }
}

/** Whether the pid is a live postmaster of this cluster folder. A zombie has no command line. */
export function isPostgresOf(pid: number, pgDir: string): boolean {
  if (!isAlive(pid)) return false;
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(pgDir)
      : execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], {
          encoding: 'utf8',
        }).includes(`-D ${pgDir} `);
  } catch {
    return false; // it ended between the two looks
  }
}

/** Whether a pid once known as this cluster's postmaster runs still; cheap enough to ask often. */
export function runsStill(pid: number, pgDir: string): boolean {
  return process.platform === 'linux' ? isPostgresOf(pid, pgDir) : isAlive(pid);
}
