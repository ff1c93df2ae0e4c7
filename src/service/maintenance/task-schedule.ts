/**
 * Runs tasks, each at its own interval, counted from the end of its last run. A failure is logged, and the next
 * interval retries it. A task that keeps failing is logged once, and once more when it succeeds. A statement that the
 * database refuses for now, as when it takes too long or lacks space for temporary files, may succeed at the next
 * interval. It is logged when it fails for the third time in a row.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import { busyReasonOf, DatabaseUnavailable } from '../../database/database.ts';

export type Task = {
  /** For the log, like `checking the disk`. */
  name: string;
  everyMs: number;
  /** Also runs at once. A first run that fails is repeated at the first interval. */
  atStart?: true;
  run: () => Promise<void>;
};

/** Failures in a row from which a refusal of the database is logged. */
const REFUSALS_LOGGED_FROM = 3;
/** A task whose statement has no answer by then ends when the database is closed. */
const STOP_WITHIN_MS = 5_000;

export class TaskSchedule {
  readonly #log: Logger;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #runningTasks = new Set<Promise<void>>();
  readonly #failingTasks = new Set<string>();
  /** Refusals of the database in a row, by task. */
  readonly #refusals = new Map<string, number>();
  readonly #stopping = new AbortController();
  /** Aborted by `stop`. */
  readonly signal = this.#stopping.signal;

  constructor(log: Logger) {
    this.#log = log;
  }

  start(tasks: readonly Task[]): void {
    for (const task of tasks) {
      this.#scheduleNext(task);
      if (task.atStart) this.#runningTasks.add(task.run().catch(() => {}));
    }
  }

  /** Aborts statements of the owner, which may run for hours. The next run completes their task. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const timer of this.#timers) clearTimeout(timer);
    await waitAtMost(STOP_WITHIN_MS, Promise.allSettled(this.#runningTasks));
  }

  #scheduleNext(task: Task): void {
    if (this.signal.aborted) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      const run = task.run().then(
        () => this.#logRun(task, null),
        (error: unknown) => this.#logRun(task, error),
      );
      this.#runningTasks.add(run);
      void run.finally(() => {
        this.#runningTasks.delete(run);
        this.#scheduleNext(task);
      });
    }, task.everyMs);
    this.#timers.add(timer);
  }

  #logRun({ name }: Task, error: unknown): void {
    const wasFailing = this.#failingTasks.has(name);
    if (error === null) {
      this.#failingTasks.delete(name);
      this.#refusals.delete(name);
      if (wasFailing) this.#log.info({ task: name }, 'a task of maintenance succeeds again');
      return;
    }
    if (this.signal.aborted || !this.#isLogged(name, error)) return;
    this.#failingTasks.add(name);
    const level = wasFailing ? 'debug' : 'warn';
    this.#log[level]({ err: error, task: name }, `${name} failed; it is retried until it succeeds`);
  }

  /** A database that is not reached has a line of its own (service/readiness/readiness-log.ts). */
  #isLogged(task: string, error: unknown): boolean {
    if (!(error instanceof DatabaseUnavailable)) return true;
    if (busyReasonOf(error) === null) return false;
    const refusals = (this.#refusals.get(task) ?? 0) + 1;
    this.#refusals.set(task, refusals);
    return refusals >= REFUSALS_LOGGED_FROM;
  }
}
