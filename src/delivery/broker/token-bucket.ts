/** A rate per minute. A burst is one second's worth of tokens, and at least one token. */
export class TokenBucket {
  readonly perMinute: number;
  #tokens: number;
  #atMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#tokens = this.#most;
    this.#atMs = nowMs;
  }

  waitMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.perMinute) * 60_000;
  }

  /** @returns how many tokens were taken: up to `max`, 0 when none is available */
  take(max: number, nowMs: number): number {
    this.#refill(nowMs);
    const taken = Math.min(max, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }

  giveBack(count: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + count);
  }

  /** Without tokens: the first message waits, too. */
  empty(): void {
    this.#tokens = 0;
  }

  get #most(): number {
    return Math.max(1, this.perMinute / 60);
  }

  #refill(nowMs: number): void {
    const added = ((nowMs - this.#atMs) / 60_000) * this.perMinute;
    this.#tokens = Math.min(this.#most, this.#tokens + added);
    this.#atMs = nowMs;
  }
}
