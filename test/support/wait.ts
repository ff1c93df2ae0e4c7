/**
 * Waiting for something to become true: the only place in the tests that waits by time. A test
 * never sleeps and hopes, it names the condition.
 */
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 10;
/** Between two looks, of the time that one takes. */
const PAUSE_SHARE = 4;
/** And of the time that was waited so far: what takes seconds is not looked at fifty times. */
const WAITED_SHARE = 0.2;
const POLL_MS_MAX = 250;
const TIMEOUT_MS = 30_000;

/**
 * Polls until `condition` gives something truthy, and returns that. A look that takes
 * long (a request, a query on a connection of its own) is made less often: at most a fifth of the
 * time goes into looking, the rest is for what is waited for. The longer it waits the less often it
 * looks: four times a second in the end.
 * @param options.timeoutMs default 30 s: generous, because a loaded machine is slow, not wrong
 * @param options.what completes "waited in vain for ..."
 * @param options.everyMs for looks that cost the other side something: connections, say
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

function pauseMs(lookMs: number, waitedMs: number): number {
  const pause = Math.max(POLL_MS, lookMs * PAUSE_SHARE, waitedMs * WAITED_SHARE);
  return Math.min(POLL_MS_MAX, pause);
}

/**
 * Runs assertions until all of them hold: for what becomes true a moment after what a test has just done, such as
 * the layout after a click, a log line after its request, or a counter after its event. What holds only for a
 * moment before must not be asserted like this.
 * @param options.timeoutMs default 30 s; then the failure is that of the last look
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
