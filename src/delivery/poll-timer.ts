/** Looks again and again: when the last look said, or sooner when something happened. One at a time. */

/** Events come in crowds: one look answers all of the last few milliseconds. */
const SOON_MS = 5;

export class PollTimer {
  readonly #look: () => Promise<number>;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #isRunning = false;
  #isSoon = false;

  /** @param look must not reject. @returns (of it) milliseconds until the next look */
  constructor(look: () => Promise<number>) {
    this.#look = look;
  }

  start(): void {
    this.#isRunning = true;
    this.#in(0);
  }

  /** Something happened that makes a look worth it. */
  soon(): void {
    if (this.#isSoon || !this.#isRunning) return;
    this.#isSoon = true;
    if (this.#looking === null) this.#in(SOON_MS);
  }

  /** Resolves when no look is under way any more. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #in(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isSoon = false;
      this.#looking = this.#look().then((nextMs) => {
        this.#looking = null;
        if (this.#isRunning) this.#in(this.#isSoon ? Math.min(nextMs, SOON_MS) : nextMs);
      });
    }, delayMs);
  }
}
