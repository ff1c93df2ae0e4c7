/**
 * Removes data past its retention: whole weeks for all projects, and small batches for projects with a shorter
 * retention. The removal is rate-limited and logged. An interrupted removal resumes at the next run.
 */
import type { Logger } from 'pino';
import type { Retention } from '../core/retention.ts';
import type { Database, DatabaseAddress } from '../database/database.ts';
import { deleteOldInbound } from '../inbound/inbound-message-store.ts';
import { removeOldPartitions } from './week-removal-store.ts';
import { beginRun } from './clock-store.ts';
import {
  type ProjectRetention,
  listProjectsToTrim,
  trimLogs,
  trimProject,
  type TrimmedBatch,
} from './retention-store.ts';

export type RetentionOptions = {
  retention: Retention;
  log: Pick<Logger, 'info' | 'warn'>;
  /** Pause between two batches; shorter in tests. */
  pauseMs?: number;
};

/** Batches of 500 remove at most 5,000 emails a second, with pauses for other statements. */
const PAUSE_MS = 100;
/** About one line of progress a minute. */
const LOG_EVERY_BATCHES = 500;
const CLOCK_REMEDY =
  'If the clock is right now, run `letterhaus retention confirm` to remove all data that is due (docs/scale.md).';
const WEEKS_REMEDY =
  'Run `letterhaus retention confirm` to remove all of it at once (docs/scale.md).';

export class MailRemoval {
  readonly #database: { db: Database; address: DatabaseAddress };
  readonly #options: RetentionOptions;
  #pausedSinceMs: number | null = null;
  #reportedWeeks = '';

  constructor(database: { db: Database; address: DatabaseAddress }, options: RetentionOptions) {
    this.#database = database;
    this.#options = options;
  }

  /**
   * @param isStopping called after every batch; true leaves the rest to the next run
   * @param signal ends the removal of a week
   */
  async run(isStopping: () => boolean, signal?: AbortSignal): Promise<void> {
    const { retention } = this.#options;
    if (await this.#isPaused()) return;
    await this.#removeWeeks(signal);
    await this.#deleteOldInbound({ projectId: null, contentH: retention.contentH }, isStopping);
    for (const project of await listProjectsToTrim(this.#database.db, retention)) {
      const batches = trimProject(this.#database.db, project);
      await this.#trimInBatches(batches, { project_id: project.projectId }, isStopping);
      await this.#deleteOldInbound(project, isStopping);
      if (isStopping()) return;
    }
    await this.#trimInBatches(trimLogs(this.#database.db), {}, isStopping);
  }

  /** Checks for a clock jump. Logs each jump once. */
  async #isPaused(): Promise<boolean> {
    const pause = await beginRun(this.#database.db);
    if (pause !== null && pause.since.getTime() !== this.#pausedSinceMs) {
      this.#options.log.warn(
        { moved_h: Math.round(pause.movedS / 3600), until: pause.until, remedy: CLOCK_REMEDY },
        'the clock of the database moved by more than a day; this node removes old data once the clock has been steady for a day',
      );
    }
    this.#pausedSinceMs = pause?.since.getTime() ?? null;
    return pause !== null;
  }

  async #removeWeeks(signal: AbortSignal | undefined): Promise<void> {
    const { retention, log } = this.#options;
    if (retention.contentH === null && retention.metadataH === null) return;
    const removal = await removeOldPartitions(this.#database.address, retention, { signal });
    if (removal === null) return;
    const { removed, kept, waiting } = removal;
    this.#reportWaiting(waiting);
    if (removed.length > 0)
      log.info({ removed }, 'this node removed weeks of mail past their retention');
    if (kept.length > 0)
      log.warn({ kept }, 'this node keeps weeks of mail past their retention; `kept` says why');
  }

  #reportWaiting(waiting: readonly string[]): void {
    const before = this.#reportedWeeks;
    this.#reportedWeeks = waiting.join();
    if (waiting.length === 0 || this.#reportedWeeks === before) return;
    this.#options.log.warn(
      { waiting, remedy: WEEKS_REMEDY },
      'more than a tenth of all weeks is past its retention; this node removes at most a tenth in a day',
    );
  }

  /** Removes inbound messages together with content, because they are content. */
  async #deleteOldInbound(
    { projectId, contentH }: { projectId: string | null; contentH: number | null },
    isStopping: () => boolean,
  ): Promise<void> {
    while (!isStopping()) {
      if (!(await deleteOldInbound(this.#database.db, { projectId, contentH }))) return;
      await this.#pause();
    }
  }

  async #trimInBatches(
    steps: AsyncGenerator<TrimmedBatch>,
    logFields: { project_id?: ProjectRetention['projectId'] },
    isStopping: () => boolean,
  ): Promise<void> {
    const removed: Record<string, number> = {};
    const logProgress = (message: string): void => {
      if (Object.values(removed).some((count) => count > 0)) {
        this.#options.log.info({ ...logFields, ...removed }, message);
      }
    };
    let batchCount = 0;
    for await (const batch of steps) {
      removed[batch.table] = (removed[batch.table] ?? 0) + batch.removed;
      batchCount += 1;
      if (isStopping()) break;
      if (batchCount % LOG_EVERY_BATCHES === 0) logProgress('removing data past its retention');
      await this.#pause();
    }
    logProgress('data past its retention was removed');
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#options.pauseMs ?? PAUSE_MS));
  }
}
