/**
 * Counts failed authentications per client in the database, exactly across all workers. A valid key is never
 * refused. A client above its limit is refused from memory and counted only once a second, so a flood does not
 * reach the database.
 */
import { LRUCache } from 'lru-cache';
import type { Limit, LimitState } from '../../core/limits.ts';
import { cacheClock, cacheUpTo, type World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { countAuthFailure, returnAuthAttempt, type CountResult } from '../limits/limit-store.ts';

const REFUSED_FROM_MEMORY_MS = 1_000;
const REFUSED_CLIENTS_MAX = 10_000;

export class AuthLimiter {
  readonly #db: Queryable;
  readonly #limit: Limit;
  readonly #refused: LRUCache<string, LimitState>;

  constructor(db: Queryable, world: Pick<World, 'monotonicMs'>, limit: Limit) {
    this.#db = db;
    this.#limit = limit;
    this.#refused = new LRUCache({ ...cacheUpTo(REFUSED_CLIENTS_MAX), ...cacheClock(world) });
  }

  /**
   * Counts a failure of this client (net/ip-addresses.ts) and returns whether it was still allowed.
   * @throws DatabaseUnavailable
   */
  async count(client: string): Promise<CountResult> {
    const refused = this.#refused.get(client);
    if (refused) return { allowed: false, limit: refused };
    const taken = await countAuthFailure(this.#db, client, this.#limit);
    if (!taken.allowed && taken.limit.resetS > 0) {
      const refusedForMs = Math.min(REFUSED_FROM_MEMORY_MS, taken.limit.resetS * 1000);
      // LRUCache still returns an entry whose age equals its ttl.
      this.#refused.set(client, taken.limit, { ttl: refusedForMs - 1 });
    }
    return taken;
  }

  /**
   * Subtracts attempts that were counted as failures and then succeeded.
   * @throws DatabaseUnavailable
   */
  async uncount(clients: readonly string[]): Promise<void> {
    await returnAuthAttempt(this.#db, clients, this.#limit);
  }
}
