/**
 * Finds the caller of an API key. For sending, a result is cached for less than a second: the accept statement
 * checks the key again, so the hot path queries the database once per key and second. A key in use is refreshed in
 * the background before it expires, so requests do not wait. Other requests use `findNow`, which always queries, so
 * a revocation by any worker takes effect on the next request.
 *
 * Keys that are requested during a look-up share the next one.
 */
import { LRUCache } from 'lru-cache';
import { hashApiKey, parseApiKey } from './api-key.ts';
import type { Caller } from '../../core/scope.ts';
import type { World } from '../../lib/world.ts';
import { findCallers, touchLastUsed } from './key-store.ts';
import type { Queryable } from '../../database/database.ts';

/** Counted from before the look-up is sent, so a result is never older than this. */
const VALID_MS = 900;
const REFRESH_MS = 500;
const ENTRIES_MAX = 10_000;
const LOOKUP_MAX = 500;

type Entry = { caller: Caller; asOfMs: number };
type Waiting = { promise: Promise<Caller | null>; settle: (result: Answer) => void };
type Answer = { caller: Caller | null } | { error: unknown };

export class KeyCache {
  readonly #db: Queryable;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #entries = new LRUCache<string, Entry>({ max: ENTRIES_MAX });
  readonly #waiting = new Map<string, Waiting>();
  readonly #underWay = new Map<string, Waiting>();
  /** Incremented by every `forget`: results of earlier look-ups are neither cached nor shared. */
  #generation = 0;
  #sentGeneration = 0;
  #running = false;

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
  findNow(text: string): Promise<Caller | null> | null {
    return parseApiKey(text) === null ? null : this.#lookUp(hashApiKey(text), { asOfNow: true });
  }

  forget(keyId: string): void {
    this.#generation += 1;
    for (const [hash, { caller }] of this.#entries) {
      if (caller.keyId === keyId) this.#entries.delete(hash);
    }
  }

  #lookUp(hash: string, { asOfNow = false } = {}): Promise<Caller | null> {
    const fresh = !asOfNow && this.#sentGeneration === this.#generation;
    const twin = this.#waiting.get(hash) ?? (fresh ? this.#underWay.get(hash) : undefined);
    if (twin) return twin.promise;
    let settle: Waiting['settle'] = () => {};
    const promise = new Promise<Caller | null>((resolve, reject) => {
      settle = (answer) => ('error' in answer ? reject(answer.error) : resolve(answer.caller));
    });
    this.#waiting.set(hash, { promise, settle });
    if (!this.#running) void this.#run();
    return promise;
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.size > 0) {
      for (const [hash, waiting] of [...this.#waiting].slice(0, LOOKUP_MAX)) {
        this.#waiting.delete(hash);
        this.#underWay.set(hash, waiting);
      }
      await this.#lookUpAll([...this.#underWay.keys()]);
    }
    this.#running = false;
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

  #settle(hash: string, answer: Answer): void {
    const waiting = this.#underWay.get(hash);
    this.#underWay.delete(hash);
    waiting?.settle(answer);
  }
}

const WRITE_EVERY_MS = 5_000;

/**
 * Times of the last use of keys. Each request records them in memory; a timer stores them together. A crash loses
 * the last few seconds.
 */
export class KeyUse {
  readonly #db: Queryable;
  readonly #timer: NodeJS.Timeout;
  #used = new Map<string, Caller>();

  constructor(db: Queryable) {
    this.#db = db;
    this.#timer = setInterval(() => void this.#write(), WRITE_EVERY_MS).unref();
  }

  note(caller: Caller): void {
    this.#used.set(caller.keyId, caller);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write();
  }

  async #write(): Promise<void> {
    const used = this.#used;
    if (used.size === 0) return;
    this.#used = new Map();
    await touchLastUsed(this.#db, [...used.values()]).catch(() => {});
  }
}
