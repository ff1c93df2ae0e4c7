/**
 * Finds the caller of an API key. For sending, a result is cached for less than a second: the accept statement
 * checks the key again, so the hot path queries the database once per key and second. A key in use is refreshed in
 * the background before it expires, so requests do not wait. Other requests use `findUncached`, which always
 * queries, so a revocation by any worker takes effect on the next request.
 *
 * While a query runs, further keys wait. The next query finds all of them.
 */
import { LRUCache } from 'lru-cache';
import { hashApiKey, parseApiKey } from './api-key.ts';
import type { Caller } from '../../core/scope.ts';
import { cacheUpTo, type World } from '../../lib/world.ts';
import { findCallers } from './key-store.ts';
import type { Queryable } from '../../database/database.ts';

/** Milliseconds for which a found caller is used, from the moment before its query was sent. */
const VALID_MS = 900;
const REFRESH_MS = 500;
const ENTRIES_MAX = 10_000;
const HASHES_PER_LOOKUP_MAX = 500;

type Entry = { caller: Caller; asOfMs: number };
type PendingLookup = { promise: Promise<Caller | null>; settle: (result: LookupResult) => void };
type LookupResult = { caller: Caller | null } | { error: unknown };

export class KeyCache {
  readonly #db: Queryable;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #entries = new LRUCache<string, Entry>(cacheUpTo(ENTRIES_MAX));
  readonly #pending = new Map<string, PendingLookup>();
  readonly #inProgress = new Map<string, PendingLookup>();
  /** Incremented by every `evict`: results of earlier look-ups are neither cached nor shared. */
  #generation = 0;
  #sentGeneration = 0;
  #isRunning = false;

  constructor(db: Queryable, world: Pick<World, 'monotonicMs'>) {
    this.#db = db;
    this.#world = world;
  }

  /**
   * Returns the caller of this key; null for a text that is not a key, and for unknown, revoked and expired keys.
   * The result is not a promise when it is cached.
   * @throws DatabaseUnavailable
   */
  find(text: string): Caller | null | Promise<Caller | null> {
    const hash = hashApiKey(text);
    const entry = this.#entries.get(hash);
    const ageMs = entry ? this.#world.monotonicMs() - entry.asOfMs : Infinity;
    if (entry && ageMs < VALID_MS) {
      if (ageMs >= REFRESH_MS) this.#lookUp(hash).catch(() => {});
      return entry.caller;
    }
    this.#entries.delete(hash);
    if (parseApiKey(text) === null) return null;
    return this.#lookUp(hash);
  }

  /**
   * Queries the caller of this key without the cache: a key revoked before this call is not found.
   * @throws DatabaseUnavailable
   */
  findUncached(text: string): Promise<Caller | null> | null {
    return parseApiKey(text) === null ? null : this.#lookUp(hashApiKey(text), { isUncached: true });
  }

  evict(keyId: string): void {
    this.#generation += 1;
    for (const [hash, { caller }] of this.#entries) {
      if (caller.keyId === keyId) this.#entries.delete(hash);
    }
  }

  #lookUp(hash: string, { isUncached = false } = {}): Promise<Caller | null> {
    const fresh = !isUncached && this.#sentGeneration === this.#generation;
    const sharedLookup =
      this.#pending.get(hash) ?? (fresh ? this.#inProgress.get(hash) : undefined);
    if (sharedLookup) return sharedLookup.promise;
    let settle: PendingLookup['settle'] = () => {};
    const promise = new Promise<Caller | null>((resolve, reject) => {
      settle = (result) => ('error' in result ? reject(result.error) : resolve(result.caller));
    });
    this.#pending.set(hash, { promise, settle });
    if (!this.#isRunning) void this.#run();
    return promise;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#pending.size > 0) {
      for (const [hash, lookup] of [...this.#pending].slice(0, HASHES_PER_LOOKUP_MAX)) {
        this.#pending.delete(hash);
        this.#inProgress.set(hash, lookup);
      }
      await this.#lookUpAll([...this.#inProgress.keys()]);
    }
    this.#isRunning = false;
  }

  async #lookUpAll(hashes: readonly string[]): Promise<void> {
    const asOfMs = this.#world.monotonicMs();
    const generation = this.#generation;
    this.#sentGeneration = generation;
    try {
      const callers = await findCallers(this.#db, hashes);
      for (const hash of hashes) {
        const caller = callers.get(hash) ?? null;
        if (caller === null) this.#entries.delete(hash);
        else if (generation === this.#generation) this.#entries.set(hash, { caller, asOfMs });
        this.#settle(hash, { caller });
      }
    } catch (error) {
      for (const hash of hashes) this.#settle(hash, { error });
    }
  }

  #settle(hash: string, result: LookupResult): void {
    const lookup = this.#inProgress.get(hash);
    this.#inProgress.delete(hash);
    lookup?.settle(result);
  }
}
