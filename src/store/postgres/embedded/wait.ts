/**
 * Waiting for a condition of the outside world (a file, a process) that nobody announces.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '../../../core/world.ts';

export type Clock = Pick<World, 'monotonicMs'>;

export type PollOptions = {
  clock: Clock;
  timeoutMs: number;
  /** Between two looks; 20 ms unless told. */
  everyMs?: number;
};

/** Looks until `look` gives something other than null, and gives that; null after the timeout. */
export async function poll<Found>(
  options: PollOptions,
  look: () => Found | null | Promise<Found | null>,
): Promise<Found | null> {
  const deadlineMs = options.clock.monotonicMs() + options.timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    if (options.clock.monotonicMs() >= deadlineMs) return null;
    await pause(options.everyMs ?? 20);
  }
}
