/**
 * Processes that are not children of this one: whether they are alive, and whether a pid is the server of a given
 * cluster. A pid alone is not sufficient: after a restart of a container, another process may have the number. Files
 * and ends of such processes are polled, because there are no events for them.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '../../lib/world.ts';

/** Returns whether the pid exists, of any user. A zombie exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Returns whether the process has ended but was not reaped. PostgreSQL treats it as alive. */
export function isZombie(pid: number): boolean {
  try {
    return / Z [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false; // it has ended, or this is not Linux
  }
}

/** Returns whether the pid is a live postmaster of this cluster folder. A zombie has no command line. */
export function isPostgresOf(pid: number, pgDir: string): boolean {
  if (!isAlive(pid)) return false;
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(pgDir)
      : execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], {
          encoding: 'utf8',
        }).includes(`-D ${pgDir} `);
  } catch {
    return false; // it ended between the two checks
  }
}

/** Returns whether a pid that was this cluster's postmaster still is. Fast enough for polling. */
export function isStillRunning(pid: number, pgDir: string): boolean {
  return process.platform === 'linux' ? isPostgresOf(pid, pgDir) : isAlive(pid);
}

export type Clock = Pick<World, 'monotonicMs'>;

export type PollOptions = {
  clock: Clock;
  timeoutMs: number;
  everyMs?: number;
  signal?: AbortSignal | undefined;
};

/**
 * Calls `check` until it returns a value other than null, and returns that; null after the timeout.
 * @throws the reason of the signal when that is aborted
 */
export async function poll<Found>(
  options: PollOptions,
  check: () => Found | null | Promise<Found | null>,
): Promise<Found | null> {
  const deadlineMs = options.clock.monotonicMs() + options.timeoutMs;
  for (;;) {
    const found = await check();
    if (found !== null) return found;
    if (options.clock.monotonicMs() >= deadlineMs) return null;
    await pause(options.everyMs ?? 20);
    options.signal?.throwIfAborted();
  }
}
