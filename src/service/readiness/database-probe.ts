/**
 * Knows whether the database answers, without anybody waiting for it: asks every second in the background and keeps the
 * result. The next file is readiness.ts.
 *
 * One slow or one failed answer changes nothing: a connection that was lost says little about the database. It counts as
 * unavailable when the same question fails twice in a row, the second time on a new connection, or has no answer for
 * 3 s. The first answer ends that.
 */
import type { Unready } from '../../core/readiness.ts';
import { afterUnstalled } from '../../database/server/connect.ts';
import { acceptsWrites } from '../../database/server/failover.ts';
import { isReadOnlyError, type Queryable } from '../../database/database.ts';

const ASK_EVERY_MS = 1_000;
const SILENT_MAX_MS = 3_000;
const FAILURES_MAX = 2;

const SILENT: Unready = { code: 'database_unavailable', reason: 'the database does not answer' };
const READ_ONLY: Unready = { code: 'database_read_only', reason: 'the database is read-only' };

type DatabaseProbeOptions = {
  /** Its connection is used for short statements only. */
  db: Queryable;
};

export class DatabaseProbe {
  readonly #options: DatabaseProbeOptions;
  #problem: Unready | null = null;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #asking: Promise<void> | null = null;
  #isStopped = false;

  constructor(options: DatabaseProbeOptions) {
    this.#options = options;
  }

  /** Null while it answers and accepts writes. */
  get problem(): Unready | null {
    return this.#problem;
  }

  /** Asks now: something else got no answer. */
  look(): void {
    if (this.#isStopped || this.#asking !== null) return;
    clearTimeout(this.#timer);
    this.#asking = this.#ask().finally(() => {
      this.#asking = null;
      // At once after a first failure.
      if (this.#failures > 0 && this.#failures < FAILURES_MAX) this.look();
      else this.#schedule();
    });
  }

  /** Does not wait for an answer. */
  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => this.look(), ASK_EVERY_MS).unref();
  }

  async #ask(): Promise<void> {
    const cancel = afterUnstalled(SILENT_MAX_MS, () => this.#note(SILENT));
    try {
      const isWritable = await acceptsWrites(this.#options.db);
      this.#failures = 0;
      this.#note(isWritable ? null : READ_ONLY);
    } catch (error) {
      this.#failures += 1;
      if (this.#failures >= FAILURES_MAX) this.#note(isReadOnlyError(error) ? READ_ONLY : SILENT);
    } finally {
      cancel();
    }
  }

  #note(problem: Unready | null): void {
    this.#problem = problem;
  }
}
