/**
 * Settle health (settle.ts): whether outcomes get through to the database. Asked before a message is completed
 * whose outcome must be written afterwards: the fewer of those while commits fail, the fewer are
 * repeated after a crash. One timer per batch, so that asking costs nothing.
 */
import { atMost } from '../lib/at-most.ts';

/** A commit that takes longer than this is stuck; a slow disk takes less. */
const STUCK_AFTER_MS = 2_000;

export class SettleHealth {
  /** Resolved when the next batch is written; null: nothing is stuck. */
  #recovered: PromiseWithResolvers<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  get isStuck(): boolean {
    return this.#recovered !== null;
  }

  batchStarted(): void {
    this.#timer = setTimeout(() => this.stuck(), STUCK_AFTER_MS).unref();
  }

  /** The database is unavailable. */
  stuck(): void {
    this.#recovered ??= Promise.withResolvers();
  }

  /** The database refused the batch, and writes nothing else: stuck until a batch is written. */
  batchRefused(): void {
    clearTimeout(this.#timer);
    this.stuck();
  }

  /** The batch is written, or was fenced off. */
  batchWritten(): void {
    clearTimeout(this.#timer);
    this.#recovered?.resolve();
    this.#recovered = null;
  }

  /** @returns whether batches are written again within the time */
  async recovers(withinMs: number): Promise<boolean> {
    if (this.#recovered === null) return true;
    await atMost(withinMs, this.#recovered.promise);
    return !this.isStuck;
  }
}
