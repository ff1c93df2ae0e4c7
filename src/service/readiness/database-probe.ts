/**
 * Tracks whether the database answers, so that nobody has to wait for it. It asks every second in the background and
 * keeps the result (readiness.ts reads it).
 *
 * One slow or one failed answer changes nothing, because a lost connection says little about the database. The database
 * counts as unavailable when two queries in a row fail, the second on a new connection, or when a query has no answer
 * for 3 s. The first answer ends that.
 */
import type { Unready } from '../../core/unready.ts';
import { setUnstalledTimeout } from '../../database/server/connect.ts';
import { acceptsWrites } from '../../database/server/failover.ts';
import { isReadOnlyError, type Queryable } from '../../database/database.ts';

const PROBE_EVERY_MS = 1_000;
const SILENT_MAX_MS = 3_000;
const FAILURES_MAX = 2;

const SILENT: Unready = { code: 'database_unavailable', reason: 'the database does not answer' };
const READ_ONLY: Unready = { code: 'database_read_only', reason: 'the database is read-only' };

type DatabaseProbeOptions = {
  /** Used for short statements only. */
  db: Queryable;
};

export class DatabaseProbe {
  readonly #options: DatabaseProbeOptions;
  #problem: Unready | null = null;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #probing: Promise<void> | null = null;
  #isStopped = false;

  constructor(options: DatabaseProbeOptions) {
    this.#options = options;
  }

  /** Null while the database answers and accepts writes. */
  get problem(): Unready | null {
    return this.#problem;
  }

  /** Asks now, because another query got no answer. */
  probeNow(): void {
    if (this.#isStopped || this.#probing !== null) return;
    clearTimeout(this.#timer);
    this.#probing = this.#probe().finally(() => {
      this.#probing = null;
      // Asks again at once after a first failure.
      if (this.#failures > 0 && this.#failures < FAILURES_MAX) this.probeNow();
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
    this.#timer = setTimeout(() => this.probeNow(), PROBE_EVERY_MS).unref();
  }

  async #probe(): Promise<void> {
    const cancel = setUnstalledTimeout(SILENT_MAX_MS, () => this.#setProblem(SILENT));
    try {
      const isWritable = await acceptsWrites(this.#options.db);
      this.#failures = 0;
      this.#setProblem(isWritable ? null : READ_ONLY);
    } catch (error) {
      this.#failures += 1;
      if (this.#failures >= FAILURES_MAX)
        this.#setProblem(isReadOnlyError(error) ? READ_ONLY : SILENT);
    } finally {
      cancel();
    }
  }

  #setProblem(problem: Unready | null): void {
    this.#problem = problem;
  }
}
