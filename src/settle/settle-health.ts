/**
 * Tracks whether the database stores outcomes. Delivery asks before the final dot of a message, because a crash repeats
 * each message whose outcome is not stored. One timer per batch makes the check free.
 */
import { waitAtMost } from '../lib/at-most.ts';

/** Settling is stalled when a commit takes longer. A slow disk takes less. */
const STALLED_AFTER_MS = 2_000;

export class SettleHealth {
  /** Resolved when the next batch is stored, or null when settling is not stalled. */
  #recovered: PromiseWithResolvers<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  get isStalled(): boolean {
    return this.#recovered !== null;
  }

  batchStarted(): void {
    this.#timer = setTimeout(() => this.markStalled(), STALLED_AFTER_MS).unref();
  }

  markStalled(): void {
    this.#recovered ??= Promise.withResolvers();
  }

  /** The database refuses every outcome: settling is stalled until a batch is stored. */
  batchRefused(): void {
    clearTimeout(this.#timer);
    this.markStalled();
  }

  /** The batch was stored or fenced off. */
  batchStored(): void {
    clearTimeout(this.#timer);
    this.#recovered?.resolve();
    this.#recovered = null;
  }

  /** @returns whether batches are stored again within the time */
  async waitForRecovery(withinMs: number): Promise<boolean> {
    if (this.#recovered === null) return true;
    await waitAtMost(withinMs, this.#recovered.promise);
    return !this.isStalled;
  }
}
