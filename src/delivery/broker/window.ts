/**
 * The number of connections that a provider accepts from one source. It grows with each message accepted while all
 * connections are busy, halves when the provider complains, and recovers slowly.
 *
 * The window remembers the smallest number that was too many. It grows to just below that number, and reaches it only
 * after a wait that doubles with each further complaint. Otherwise the window would oscillate around the number.
 */
import { type RecoveryRules, START_CONNECTIONS } from '../shaping/settings.ts';

/** Complaints on several connections within this time count as one. */
const SAME_COMPLAINT_MS = 2_000;
const TRY_AGAIN_MAX_MS = 3600_000;
/** A complaint this long after the previous one restarts the wait at its first value. */
const REMEMBERED_MS = 6 * 3600_000;

export class Window {
  size: number;
  readonly #limit: number;
  readonly #rules: RecoveryRules;
  /** The smallest number that was too many; Infinity: none was. */
  #tooMany = Infinity;
  #tryAgainAfterMs: number;
  #tryAgainAtMs = 0;
  #growAtMs = 0;
  #complainedAtMs = -Infinity;
  #hasGrown = false;

  constructor(limit: number, rules: RecoveryRules) {
    this.#limit = limit;
    this.#rules = rules;
    this.#tryAgainAfterMs = rules.tryAgainAfterMs;
    this.size = Math.min(START_CONNECTIONS, limit);
  }

  get isWhole(): boolean {
    return this.#tooMany === Infinity;
  }

  /** Milliseconds until the window may reach the number that was too many; 0: no number was. */
  slowedForMs(nowMs: number): number {
    return this.isWhole ? 0 : Math.max(1, this.#tryAgainAtMs - nowMs);
  }

  /** @param count messages accepted while all connections were busy @returns whether the window grew */
  grow(count: number, nowMs: number): boolean {
    if (nowMs < this.#growAtMs) return false;
    const mayTryAll = nowMs >= this.#tryAgainAtMs;
    const most = mayTryAll ? this.#limit : Math.min(this.#limit, this.#tooMany - 1);
    if (this.size >= most) return false;
    this.size = this.isWhole ? Math.min(most, this.size + count) : this.size + 1;
    if (!this.isWhole) this.#growAtMs = nowMs + this.#rules.stepMs;
    this.#hasGrown = true;
    if (this.size === this.#limit) this.#tooMany = Infinity;
    return true;
  }

  /**
   * Halves the window after a complaint. A refused new connection counts if it was opened after the previous
   * complaint. Other complaints within SAME_COMPLAINT_MS may be about the number before, so they do not count.
   * @param openedForMs age of the refused connection; null: the complaint was another reply
   * @returns whether the window shrank
   */
  shrink(nowMs: number, openedForMs: number | null = null): boolean {
    const sinceLastMs = nowMs - this.#complainedAtMs;
    if (sinceLastMs <= (openedForMs ?? SAME_COMPLAINT_MS)) return false;
    this.#complainedAtMs = nowMs;
    if (sinceLastMs > REMEMBERED_MS) this.#tryAgainAfterMs = this.#rules.tryAgainAfterMs;
    else if (this.#hasGrown) this.#tryAgainAfterMs = this.#longer(this.#tryAgainAfterMs);
    this.#hasGrown = false;
    this.#tooMany = Math.max(2, this.size);
    this.#tryAgainAtMs = nowMs + this.#tryAgainAfterMs;
    this.#growAtMs = nowMs + this.#rules.holdDownMs;
    this.size = Math.max(1, Math.floor(this.size / 2));
    return true;
  }

  /** Returns to the first number, because a server may accept less after an outage. */
  restart(): void {
    this.size = Math.min(this.size, START_CONNECTIONS);
  }

  #longer(waitMs: number): number {
    return Math.min(Math.max(TRY_AGAIN_MAX_MS, this.#rules.tryAgainAfterMs), waitMs * 2);
  }
}
