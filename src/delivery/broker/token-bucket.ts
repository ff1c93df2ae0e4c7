/** A token bucket with a rate per minute. It holds tokens for one second, and at least one. */
export class TokenBucket {
  readonly perMinute: number;
  #tokens: number;
  #atMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#tokens = this.#capacity;
    this.#atMs = nowMs;
  }

  waitMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.perMinute) * 60_000;
  }

  takeTokens(max: number, nowMs: number): number {
    this.#refill(nowMs);
    const taken = Math.min(max, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }

  returnTokens(count: number): void {
    this.#tokens = Math.min(this.#capacity, this.#tokens + count);
  }

  /** Takes all tokens, so the first message waits, too. */
  empty(): void {
    this.#tokens = 0;
  }

  get #capacity(): number {
    return Math.max(1, this.perMinute / 60);
  }

  #refill(nowMs: number): void {
    const added = ((nowMs - this.#atMs) / 60_000) * this.perMinute;
    this.#tokens = Math.min(this.#capacity, this.#tokens + added);
    this.#atMs = nowMs;
  }
}
