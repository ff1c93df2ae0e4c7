/** Hands events over together, so that a burst causes few requests. */
import type { NewEvents } from './feed.ts';

type Pace = {
  /** Milliseconds that the first event after a pause waits for others. */
  firstMs: number;
  /** Returns the milliseconds from one hand-over to the next. */
  everyMs: () => number;
};

export class Gathering {
  readonly #handOver: (news: NewEvents) => void;
  readonly #pace: Pace;
  #events: NewEvents['events'][number][] = [];
  #isGapless = true;
  #timer = 0;
  #lastMs = -Infinity;

  constructor(handOver: (news: NewEvents) => void, pace: Pace) {
    this.#handOver = handOver;
    this.#pace = pace;
  }

  add({ events, isGapless }: NewEvents): void {
    this.#events.push(...events);
    this.#isGapless &&= isGapless;
    if (this.#timer !== 0) return;
    const { firstMs, everyMs } = this.#pace;
    const waitMs = Math.max(firstMs, this.#lastMs + everyMs() - performance.now());
    this.#timer = window.setTimeout(() => this.#end(), waitMs);
  }

  stop(): void {
    window.clearTimeout(this.#timer);
  }

  #end(): void {
    const news = { events: this.#events, isGapless: this.#isGapless };
    this.#timer = 0;
    this.#lastMs = performance.now();
    this.#events = [];
    this.#isGapless = true;
    this.#handOver(news);
  }
}
