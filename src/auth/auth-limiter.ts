/**
 * Counts failed authentications per client, in the database: exact over all workers. Only failing
 * requests come here; a valid key always works. A client over its limit is refused from memory
 * and counted again only once a second, so that a flood does not reach the database.
 */
import type { Limit, LimitState } from '../core/limits.ts';
import type { World } from '../core/world.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { countAuthFailure, type Taken } from '../store/limits.ts';

const BLOCKED_WITHOUT_ASKING_MS = 1_000;
const BLOCKED_MAX = 10_000;

type Blocked = { limit: LimitState; sinceMs: number };

export class AuthLimiter {
  readonly #db: Queryable;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #limit: Limit;
  readonly #blocked = new Map<string, Blocked>();

  constructor(db: Queryable, world: Pick<World, 'monotonicMs'>, limit: Limit) {
    this.#db = db;
    this.#world = world;
    this.#limit = limit;
  }

  /**
   * Counts a failure of this client (net/addresses.ts) and returns whether it was still allowed.
   * @throws DatabaseUnavailable
   */
  async count(client: string): Promise<Taken> {
    const blocked = this.#blockedNow(client);
    if (blocked) return { allowed: false, limit: blocked };
    const taken = await countAuthFailure(this.#db, client, this.#limit);
    if (!taken.allowed) this.#block(client, taken.limit);
    return taken;
  }

  #blockedNow(client: string): LimitState | null {
    const blocked = this.#blocked.get(client);
    if (!blocked) return null;
    const elapsedMs = this.#world.monotonicMs() - blocked.sinceMs;
    if (elapsedMs < Math.min(BLOCKED_WITHOUT_ASKING_MS, blocked.limit.resetS * 1000)) {
      return blocked.limit;
    }
    this.#blocked.delete(client);
    return null;
  }

  #block(client: string, limit: LimitState): void {
    this.#blocked.set(client, { limit, sinceMs: this.#world.monotonicMs() });
    const [oldest] = this.#blocked.keys();
    if (this.#blocked.size > BLOCKED_MAX && oldest !== undefined) this.#blocked.delete(oldest);
  }
}
