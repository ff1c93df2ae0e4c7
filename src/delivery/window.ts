/**
 * How many connections a receiver is believed to bear: grows with what it takes, halves when it
 * says that we are too many, comes back slowly.
 *
 * The number that was too many is remembered and approached, but tried again only after a while,
 * which doubles each time it is too many again: else the window would swing for ever around it.
 */
import { type RecoveryRules, START_CONNECTIONS } from './shaping-defaults.ts';

/** Several connections hear the same complaint at about the same time: it counts once. */
const SAME_COMPLAINT_MS = 2_000;
const TRY_AGAIN_MAX_MS = 3600_000;
/** A complaint that is this much later than the last has nothing to do with it. */
const REMEMBERED_MS = 6 * 3600_000;

export class Window {
  size: number;
  readonly #limit: number;
  readonly #rules: RecoveryRules;
  /** The smallest number that was too many; Infinity: none is known. */
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

  /** How long until it may have as many as were too many last; 0 when nothing is known to be. */
  slowedForMs(nowMs: number): number {
    return this.isWhole ? 0 : Math.max(1, this.#tryAgainAtMs - nowMs);
  }

  /** @param count messages taken while all connections were busy. @returns whether it grew */
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
   * It is too many, or too fast. A new connection that is refused says so of the present number,
   * however soon; other complaints may be about the number before.
   * @param openedForMs how long ago a connection was begun that is refused now; null: another answer
   * @returns whether it shrank
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

  /** After an outage: what it bore before says little about a server that has just come up. */
  restart(): void {
    this.size = Math.min(this.size, START_CONNECTIONS);
  }

  #longer(waitMs: number): number {
    return Math.min(Math.max(TRY_AGAIN_MAX_MS, this.#rules.tryAgainAfterMs), waitMs * 2);
  }
}
