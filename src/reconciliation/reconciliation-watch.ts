/**
 * Runs the daily reconciliation in a running service (reconcile.ts), in small steps with pauses between them.
 * However much mail there is, it takes a small part of one connection.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { reconcile } from './reconcile.ts';
import type { Database } from '../database/database.ts';
import type { OperatorEventLog } from '../operator/operator-event-log.ts';

/** Steps of 250 emails check 10 million emails in about an hour and a half. */
const PAUSE_MS = 100;

type WatchOptions = { db: Database; operatorEvents: OperatorEventLog; signal: AbortSignal };

export class ReconciliationWatch {
  readonly #options: WatchOptions;
  #isRunning = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Runs once at a time. The first run begins at the start of the service and may take long. */
  async run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const { db, operatorEvents, signal } = this.#options;
    const pauseBetweenSteps = async (): Promise<boolean> => {
      await pause(PAUSE_MS, null, { ref: false, signal }).catch(() => {});
      return !signal.aborted;
    };
    try {
      await reconcile({ db, operatorEvents, pauseBetweenSteps });
    } finally {
      this.#isRunning = false;
    }
  }
}
