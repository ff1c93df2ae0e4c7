/**
 * Records when keys were last used. Each request records it in memory; a timer stores all of them together. A crash
 * loses the last few seconds.
 */
import type { Caller } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { recordLastUse } from './key-store.ts';

const STORE_EVERY_MS = 5_000;

export class KeyUsage {
  readonly #db: Queryable;
  readonly #timer: NodeJS.Timeout;
  #callers = new Map<string, Caller>();

  constructor(db: Queryable) {
    this.#db = db;
    this.#timer = setInterval(() => void this.#store(), STORE_EVERY_MS).unref();
  }

  record(caller: Caller): void {
    this.#callers.set(caller.keyId, caller);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#store();
  }

  async #store(): Promise<void> {
    const callers = this.#callers;
    if (callers.size === 0) return;
    this.#callers = new Map();
    await recordLastUse(this.#db, [...callers.values()]).catch(() => {});
  }
}
