/**
 * When keys were last used: noted in memory by each request and written together every few
 * seconds, never on the way to an answer. Losing the last seconds of it hurts nobody.
 */
import type { Caller } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { touchLastUsed } from '../store/keys.ts';

const WRITE_EVERY_MS = 5_000;

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

  /** Writes what is left. */
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
