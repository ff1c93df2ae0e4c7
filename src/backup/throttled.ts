/** Limits how often a function is called, for example to print progress. */
import type { World } from '../lib/world.ts';

/** Returns a function that calls `report` at most once per interval, first after one, and drops other calls. */
export function throttled<Args extends unknown[]>(
  intervalMs: number,
  world: Pick<World, 'monotonicMs'>,
  report: (...args: Args) => void,
): (...args: Args) => void {
  let reportedMs = world.monotonicMs();
  return (...args) => {
    const nowMs = world.monotonicMs();
    if (nowMs - reportedMs < intervalMs) return;
    reportedMs = nowMs;
    report(...args);
  };
}
