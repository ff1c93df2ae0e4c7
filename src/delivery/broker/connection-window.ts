/**
 * The number of connections that a provider accepts from one source. It grows with each message accepted while all
 * connections are busy, halves when the provider asks for fewer, and recovers slowly.
 *
 * The window remembers the smallest number that was too many. It grows to just below that number, and reaches it only
 * after a wait that doubles with each further slowdown. Otherwise the window would oscillate around the number.
 */
import { type RecoveryRules, START_CONNECTIONS } from '../shaping/settings.ts';

/** Slowdowns on several connections within this time count as one. */
const SAME_SLOWDOWN_MS = 2_000;
const TRY_AGAIN_MAX_MS = 3600_000;
/** A slowdown this long after the previous one restarts the wait at its first value. */
const REMEMBERED_MS = 6 * 3600_000;

export class ConnectionWindow {
  size: number;
  readonly #limit: number;
  readonly #rules: RecoveryRules;
  /** The smallest number that was too many; Infinity: none was. */
  #tooManySize = Infinity;
  #tryAgainAfterMs: number;
  #tryAgainAtMs = 0;
  #growAtMs = 0;
  #shrunkAtMs = -Infinity;
  #hasGrown = false;

  constructor(limit: number, rules: RecoveryRules) {
    this.#limit = limit;
    this.#rules = rules;
    this.#tryAgainAfterMs = rules.tryAgainAfterMs;
    this.size = Math.min(START_CONNECTIONS, limit);
  }

  /** True from a slowdown until the window has its configured limit again. */
  get isReduced(): boolean {
    return this.#tooManySize !== Infinity;
  }

  /** Milliseconds until the window may reach the number that was too many; 0: no number was. */
  slowedForMs(nowMs: number): number {
    return this.isReduced ? Math.max(1, this.#tryAgainAtMs - nowMs) : 0;
  }

  /** Grows the window by `count` messages that were accepted while all connections were busy. */
  grow(count: number, nowMs: number): void {
    if (nowMs < this.#growAtMs) return;
    const mayTryLimit = nowMs >= this.#tryAgainAtMs;
    const sizeMax = mayTryLimit ? this.#limit : Math.min(this.#limit, this.#tooManySize - 1);
    if (this.size >= sizeMax) return;
    this.size = this.isReduced ? this.size + 1 : Math.min(sizeMax, this.size + count);
    if (this.isReduced) this.#growAtMs = nowMs + this.#rules.stepMs;
    this.#hasGrown = true;
    if (this.size === this.#limit) this.#tooManySize = Infinity;
  }

  /**
   * Halves the window after a slowdown. A refused new connection counts if it was opened after the previous
   * slowdown. Other replies within SAME_SLOWDOWN_MS may be about the number before, so they do not count.
   * @param openedForMs age of the refused connection, or null when another reply asked for the slowdown
   * @returns whether the window shrank
   */
  shrink(nowMs: number, openedForMs: number | null = null): boolean {
    const sinceLastMs = nowMs - this.#shrunkAtMs;
    if (sinceLastMs <= (openedForMs ?? SAME_SLOWDOWN_MS)) return false;
    this.#shrunkAtMs = nowMs;
    if (sinceLastMs > REMEMBERED_MS) this.#tryAgainAfterMs = this.#rules.tryAgainAfterMs;
    else if (this.#hasGrown) this.#tryAgainAfterMs = this.#doubledWaitMs(this.#tryAgainAfterMs);
    this.#hasGrown = false;
    this.#tooManySize = Math.max(2, this.size);
    this.#tryAgainAtMs = nowMs + this.#tryAgainAfterMs;
    this.#growAtMs = nowMs + this.#rules.holdDownMs;
    this.size = Math.max(1, Math.floor(this.size / 2));
    return true;
  }

  /** Returns to the first number, because a server may accept less after an outage. */
  restart(): void {
    this.size = Math.min(this.size, START_CONNECTIONS);
  }

  #doubledWaitMs(waitMs: number): number {
    return Math.min(Math.max(TRY_AGAIN_MAX_MS, this.#rules.tryAgainAfterMs), waitMs * 2);
  }
}
