/** The turns of callers at a fixed number of connections. */
import { setUnstalledTimeout } from './server/connect.ts';

type WaitingCaller = { enter: () => void; fail: (error: Error) => void };

/**
 * The queue for a fixed number of connections, in order of arrival. A long wait is no failure of the database while
 * connections become free. Callers fail only when none becomes free for `standstillMs`.
 */
export class ConnectionQueue {
  #free: number;
  readonly #standstillMs: number;
  readonly #waiting: WaitingCaller[] = [];
  #cancelStandstillTimer: () => void = () => {};

  constructor(count: number, standstillMs: number) {
    this.#free = count;
    this.#standstillMs = standstillMs;
  }

  async enter(): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ enter: resolve, fail: reject });
    if (this.#waiting.length === 1) this.#restartStandstillTimer();
    return promise;
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next.enter();
    this.#restartStandstillTimer();
  }

  #restartStandstillTimer(): void {
    this.#cancelStandstillTimer();
    if (this.#waiting.length === 0) return;
    this.#cancelStandstillTimer = setUnstalledTimeout(this.#standstillMs, () => {
      const error = new Error('no connection became free in time');
      for (const { fail } of this.#waiting.splice(0)) fail(error);
    });
  }
}
