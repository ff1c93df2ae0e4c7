/** Waits for a condition. Only this file waits by time: a test never sleeps, it names its condition. */
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 10;
/** Pause between two checks, in multiples of a check's duration. */
const PAUSE_SHARE = 4;
/** Minimum pause as a share of the time so far: what takes seconds is not checked fifty times. */
const WAITED_SHARE = 0.2;
const POLL_MS_MAX = 250;
const TIMEOUT_MS = 60_000;

/**
 * Polls until `condition` returns something truthy, and returns that. Slow checks (a request, a query on its own
 * connection) run less often: at most a fifth of the time goes into checks. The intervals grow to a quarter of a
 * second.
 * @param options.timeoutMs default 60 s, because a loaded machine is slow, not wrong
 * @param options.what completes "waited in vain for ..."
 * @param options.everyMs for checks that cost the other side something, such as connections
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: { timeoutMs?: number; what: string; everyMs?: number },
): Promise<NonNullable<Exclude<Awaited<T>, false>>> {
  const { timeoutMs = TIMEOUT_MS, what, everyMs } = options;
  const begunMs = performance.now();
  for (;;) {
    const startMs = performance.now();
    const value = await condition();
    if (value) return value as NonNullable<Exclude<Awaited<T>, false>>;
    const nowMs = performance.now();
    if (nowMs - begunMs >= timeoutMs) {
      throw new Error(`waited in vain for ${what} (${timeoutMs} ms)`);
    }
    await delay(everyMs ?? pauseMs(nowMs - startMs, nowMs - begunMs));
  }
}

function pauseMs(checkMs: number, waitedMs: number): number {
  const pause = Math.max(POLL_MS, checkMs * PAUSE_SHARE, waitedMs * WAITED_SHARE);
  return Math.min(POLL_MS_MAX, pause);
}

/**
 * Runs assertions until all of them hold: for effects a moment after an action, such as the layout after a click, a
 * log line after its request, or a counter after its event. Do not use it for a state that passes.
 * @param options.timeoutMs default 60 s; then it fails with the error of the last check
 */
export async function eventually(
  assertions: () => void | Promise<void>,
  options: { timeoutMs?: number } = {},
): Promise<void> {
  let last: unknown = null;
  const hold = async (): Promise<boolean> => {
    try {
      await assertions();
      return true;
    } catch (error) {
      last = error;
      return false;
    }
  };
  const { timeoutMs = TIMEOUT_MS } = options;
  await waitFor(hold, { what: 'assertions to hold', timeoutMs }).catch(() => {
    throw last;
  });
}
