/** So many per minute, and never more at once than a second's worth (at least one). */
export class TokenBucket {
  readonly perMinute: number;
  #tokens: number;
  #atMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#tokens = this.#most;
    this.#atMs = nowMs;
  }

  /** How long until there is one; 0: there is. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.perMinute) * 60_000;
  }

  /** @returns how many were taken: up to `max`, none when there is none */
  take(max: number, nowMs: number): number {
    this.#refill(nowMs);
    const taken = Math.min(max, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }

  giveBack(count: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + count);
  }

  /** As slow as `perMinute` from now on is not to begin with one at once. */
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
