/**
 * How many messages that change nothing are kept: letters to postmaster@, automatic replies,
 * reports that say nothing new. Anybody may send them to addresses that everybody knows, and each
 * is written to disk; reports that count are not limited by this. Beyond it a sender is told to
 * come again, as honest ones do.
 */
import type { World } from '../core/world.ts';

const WINDOW_MS = 60_000;

export type LetterLimits = { perClient: number; inAll: number };

/** Within a minute, of each worker. */
export const LETTER_LIMITS: LetterLimits = { perClient: 120, inAll: 600 };

export class Letters {
  readonly #limits: LetterLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  #sinceMs = -Infinity;
  #count = 0;
  #perClient = new Map<string, number>();

  constructor(world: Pick<World, 'monotonicMs'>, limits: LetterLimits) {
    this.#world = world;
    this.#limits = limits;
  }

  /** Counts one of this client; false: there were enough of them within a minute. */
  mayKeep(client: string): boolean {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#count = 0;
      this.#perClient = new Map();
    }
    const ofClient = this.#perClient.get(client) ?? 0;
    if (this.#count >= this.#limits.inAll || ofClient >= this.#limits.perClient) return false;
    this.#count += 1;
    this.#perClient.set(client, ofClient + 1);
    return true;
  }
}
