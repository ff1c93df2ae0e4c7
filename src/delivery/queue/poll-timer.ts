/** Calls a poll one call at a time: after the delay that the last one returned, or soon after an event. */

/** Events within this time share one poll. */
const SOON_MS = 5;

export class PollTimer {
  readonly #poll: () => Promise<number>;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> | null = null;
  #isRunning = false;
  #isSoon = false;

  /** @param poll must not reject; resolves to the milliseconds until the next call */
  constructor(poll: () => Promise<number>) {
    this.#poll = poll;
  }

  start(): void {
    this.#isRunning = true;
    this.#in(0);
  }

  /** Polls soon, because of an event. */
  soon(): void {
    if (this.#isSoon || !this.#isRunning) return;
    this.#isSoon = true;
    if (this.#polling === null) this.#in(SOON_MS);
  }

  /** Resolves when no call is under way. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#timer);
    await this.#polling;
  }

  #in(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isSoon = false;
      this.#polling = this.#poll().then((nextMs) => {
        this.#polling = null;
        if (this.#isRunning) this.#in(this.#isSoon ? Math.min(nextMs, SOON_MS) : nextMs);
      });
    }, delayMs);
  }
}
