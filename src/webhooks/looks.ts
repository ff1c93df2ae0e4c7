/**
 * When to look into the queue, and how far back. Most looks are short: a window of a flood for one
 * dead endpoint costs milliseconds. Deep ones find what transactions committed late, and sweeps what
 * was hidden in any other way. Pure: the loop says what time it is.
 */

/** What this process queues is looked for at once; this is for retries, and for other nodes. */
const EVERY_MS = 1_000;
/** While this process keeps queueing: 50 a second. */
const PAUSE_MS = 20;
const BACK_MS = 250;
const DEEP_BACK_MS = 20_000;
const DEEP_EVERY_MS = 2_000;
const SWEEP_EVERY_MS = 60_000;

export class Looks {
  /** Database time of the last look. */
  #seenMs = 0;
  // The others are of the clock that the caller tells.
  #lastMs = -Infinity;
  #nextMs = -Infinity;
  #deepMs = -Infinity;
  #sweepMs = -Infinity;

  /** How long until the next look; 0 or less: now. */
  waitMs(nowMs: number): number {
    return this.#nextMs - nowMs;
  }

  /** Something was queued: the next look is due now, or as soon as the pause allows. */
  soon(): void {
    this.#nextMs = Math.min(this.#nextMs, this.#lastMs + PAUSE_MS);
  }

  /** What was found may be lost: the next look covers everything. */
  startAnew(): void {
    this.#sweepMs = -Infinity;
  }

  /** Database time from which on to look now; -Infinity: everything. */
  sinceMs(nowMs: number): number {
    if (nowMs >= this.#sweepMs) return -Infinity;
    return this.#seenMs - (nowMs >= this.#deepMs ? DEEP_BACK_MS : BACK_MS);
  }

  /** A look that began at `nowMs` has seen everything up to `seenMs` of database time. */
  done(nowMs: number, seenMs: number): void {
    if (nowMs >= this.#sweepMs) this.#sweepMs = nowMs + SWEEP_EVERY_MS;
    if (nowMs >= this.#deepMs) this.#deepMs = nowMs + DEEP_EVERY_MS;
    this.#seenMs = seenMs;
    this.#lastMs = nowMs;
    this.#nextMs = nowMs + EVERY_MS;
  }
}
