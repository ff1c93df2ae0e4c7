/**
 * Maintains the event stream of a running service: builds the indexes that a migration left to it, and logs a
 * transaction that delays the stream.
 */
import type { Logger } from 'pino';
import type { Database, DatabaseAddress } from '../database/database.ts';
import { buildStreamIndexes, findBlockingTransaction, isStreamIndexed } from './order-store.ts';

type StreamWatchOptions = {
  database: { db: Database; address: DatabaseAddress };
  log: Logger;
  signal: AbortSignal;
};

export class StreamWatch {
  readonly #options: StreamWatchOptions;
  #isIndexed = false;
  #blockingTransaction: string | null = null;

  constructor(options: StreamWatchOptions) {
    this.#options = options;
  }

  async buildIndexes(): Promise<void> {
    const { database, log, signal } = this.#options;
    if (this.#isIndexed) return;
    this.#isIndexed = await isStreamIndexed(database.db);
    if (this.#isIndexed) return;
    const built = await buildStreamIndexes(database.address, { signal });
    log.info({ built }, 'indexes of the event stream were built');
  }

  /** Logs a transaction that ran at the last check, too: the stream is read only below the oldest running one. */
  async checkTransactions(): Promise<void> {
    const { database, log } = this.#options;
    const before = this.#blockingTransaction;
    this.#blockingTransaction = await findBlockingTransaction(database.db);
    if (before === null || this.#blockingTransaction !== before) return;
    log.warn(
      { transaction: before },
      'a long-running transaction delays the event stream; end it (docs/events.md)',
    );
  }
}
