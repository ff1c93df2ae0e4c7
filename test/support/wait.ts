/**
 * Waiting for something to become true: the only place in the tests that waits by time. A test
 * never sleeps and hopes, it names the condition.
 */
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 10;

/**
 * Polls until `condition` gives something truthy, and returns that.
 * @param options.timeoutMs default 10 s: generous, because a loaded machine is slow, not wrong
 * @param options.what completes "waited in vain for ..."
 * @param options.everyMs for looks that cost the other side something: connections, say
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: { timeoutMs?: number; what: string; everyMs?: number },
): Promise<NonNullable<Exclude<Awaited<T>, false>>> {
  const { timeoutMs = 10_000, what, everyMs = POLL_MS } = options;
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value as NonNullable<Exclude<Awaited<T>, false>>;
    if (performance.now() >= deadlineMs) {
      throw new Error(`waited in vain for ${what} (${timeoutMs} ms)`);
    }
    await delay(everyMs);
  }
}
