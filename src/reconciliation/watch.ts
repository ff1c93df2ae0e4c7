/**
 * The daily proof in a running service (reconciliation/reconcile.ts): what is due, in small steps with rests between
 * them, so that it takes a small part of one connection however much mail there is.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { reconcile } from './reconcile.ts';
import type { Database } from '../database/database.ts';
import type { OperatorEventLog } from '../operator/events.ts';

/** With steps of 250 emails: 10 million emails take about an hour and a half. */
const REST_MS = 100;

type WatchOptions = { db: Database; operatorEvents: OperatorEventLog; signal: AbortSignal };

export class ReconciliationWatch {
  readonly #options: WatchOptions;
  #isRunning = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** One run at a time: the first one, which begins at the start, may take long. */
  async run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const { db, operatorEvents, signal } = this.#options;
    const rest = async (): Promise<boolean> => {
      await pause(REST_MS, null, { ref: false, signal }).catch(() => {});
      return !signal.aborted;
    };
    try {
      await reconcile({ db, operatorEvents, rest });
    } finally {
      this.#isRunning = false;
    }
  }
}
