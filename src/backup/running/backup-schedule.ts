/**
 * Backups that the service makes itself (LETTERHAUS_BACKUP_TO). A new one is made when the newest is older than the
 * interval, also after a restart. It is read back and checked, and only then old ones are removed.
 *
 * `letterhaus backup` makes each in a separate process, so that neither its work nor its end affects the supervisor. A
 * failure is logged and retried. The newest good backup stays.
 */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { overdueCondition } from '../backup-age.ts';
import { backupPlaceAt } from '../places/locate-place.ts';
import { type BackupPlace, backupTimeMs } from '../places/backup-place.ts';
import type { BackupConfig } from '../../config/backup.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import { JournalKeeper } from './journal-keeper.ts';
import { moduleFile } from '../../config/module-file.ts';
import type { Queryable } from '../../database/database.ts';
import type { WorkerPool } from '../../service/pool/worker-pool.ts';

const MAIN = moduleFile(new URL('../../main.ts', import.meta.url));
/** Pause before a failed backup is retried; the interval if that is shorter. */
const RETRY_MS = 10 * 60_000;
const CHECK_EVERY_MS = 60_000;
const JOURNAL_EVERY_MS = 5_000;

type ScheduleOptions = {
  backup: BackupConfig;
  db: Queryable;
  pool: Pick<WorkerPool, 'recordBackup'>;
  operatorEvents: OperatorEvents;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
};

/** Runs until it is disposed, which ends a running backup. */
export function scheduleBackups(options: ScheduleOptions): AsyncDisposable {
  const { to } = options.backup;
  if (to === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  return new BackupSchedule(to, options);
}

class BackupSchedule implements AsyncDisposable {
  readonly #place: BackupPlace;
  readonly #options: ScheduleOptions;
  readonly #journal: JournalKeeper;
  readonly #stop = new AbortController();
  readonly #startedMs = systemWorld.now();
  #newestMs: number | null = null;
  #mayShorten = false;
  #retryAtMs = -Infinity;
  readonly #running: Promise<unknown>;

  constructor(to: string, options: ScheduleOptions) {
    const { signal } = this.#stop;
    this.#place = backupPlaceAt(to, { access: options.backup.s3, world: systemWorld, signal });
    this.#options = options;
    this.#journal = new JournalKeeper(this.#place, {
      ...options,
      isStopping: () => this.#stop.signal.aborted,
    });
    this.#running = Promise.all([this.#run(), this.#keepJournal(), this.#watchAge()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const waitMs = await this.#backUpIfDue();
      // Limits the wait, because the clock may be set.
      await this.#pause(Math.min(waitMs, CHECK_EVERY_MS));
    }
  }

  async #keepJournal(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#journal.run();
      if (this.#mayShorten) await this.#journal.shorten().catch(() => {});
      this.#mayShorten = false;
      await this.#pause(JOURNAL_EVERY_MS);
    }
  }

  /** Runs beside `run`, which may hang. */
  async #watchAge(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#pause(CHECK_EVERY_MS);
      this.#checkAge();
    }
  }

  #pause(ms: number): Promise<void> {
    return pause(ms, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  #checkAge(): void {
    const { backup, operatorEvents } = this.#options;
    const overdue = overdueCondition(this.#place.name, {
      newestMs: this.#newestMs,
      sinceMs: this.#startedMs,
      everyMs: backup.everyMs,
      nowMs: systemWorld.now(),
    });
    if (overdue !== null) operatorEvents.raise(overdue);
    else operatorEvents.clear({ type: 'backup.overdue', subject: this.#place.name });
  }

  #noteGoodBackup(atMs: number): void {
    const { everyMs } = this.#options.backup;
    this.#newestMs = atMs;
    this.#options.pool.recordBackup({ isGood: true, atMs, everyMs });
    this.#checkAge();
  }

  /** @returns milliseconds until the next check */
  async #backUpIfDue(): Promise<number> {
    const { backup, pool, operatorEvents, log } = this.#options;
    const failed = { type: 'backup.failed', subject: this.#place.name } as const;
    try {
      const againInMs = this.#retryAtMs - systemWorld.monotonicMs();
      const waitMs = Math.max(againInMs, againInMs > 0 ? 0 : await this.#dueInMs());
      if (waitMs > 0) return waitMs;
      const file = await this.#makeBackup();
      await this.#tryToRemove(() => this.#removeOldBackups());
      this.#mayShorten = true;
      this.#noteGoodBackup(backupTimeMs(file) ?? systemWorld.now());
      operatorEvents.clear(failed);
      log.info({ file }, 'a backup was made and checked');
      return backup.everyMs;
    } catch (error) {
      if (this.#stop.signal.aborted) return 0;
      pool.recordBackup({ isGood: false, atMs: systemWorld.now(), everyMs: backup.everyMs });
      const reason = error instanceof Error ? error.message : String(error);
      log.error(
        { reason, to: this.#place.name },
        'a backup failed; this node retries it (docs/backup.md)',
      );
      operatorEvents.raise({
        ...failed,
        message: `The last backup to ${this.#place.name} failed: ${reason}`,
        remedy: 'Fix the cause. The service retries within ten minutes. See docs/backup.md.',
      });
      const againInMs = Math.min(RETRY_MS, backup.everyMs);
      this.#retryAtMs = systemWorld.monotonicMs() + againInMs;
      return againInMs;
    }
  }

  /** Decides by the newest file, so that a restart neither adds a backup nor skips one. */
  async #dueInMs(): Promise<number> {
    const newest = (await this.#place.list()).at(-1);
    const madeMs = newest === undefined ? null : backupTimeMs(newest);
    if (madeMs === null) return 0;
    this.#noteGoodBackup(madeMs);
    return madeMs + this.#options.backup.everyMs - systemWorld.now();
  }

  /** @returns the file, which was read back and is good */
  async #makeBackup(): Promise<string> {
    await this.#tryToRemove(() => this.#place.removeUnfinished(systemWorld.now()));
    const made = (await this.#runCommand('backup', this.#place.name)) as { file: string };
    try {
      await this.#runCommand('backup', '--verify', made.file);
    } catch (error) {
      await this.#place.remove(made.file).catch(() => {});
      throw error;
    }
    return made.file;
  }

  async #removeOldBackups(): Promise<void> {
    const old = (await this.#place.list()).slice(0, -this.#options.backup.keep);
    for (const file of old) await this.#place.remove(file);
  }

  /** A bucket may deny removal, so that an attacker on this machine cannot remove backups. */
  async #tryToRemove(remove: () => Promise<void>): Promise<void> {
    try {
      await remove();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.log.warn(
        { reason },
        'this node could not remove old backups; it tries again after the next backup',
      );
    }
  }

  /** Runs a command. @returns its output with --json @throws with its error message */
  async #runCommand(...args: string[]): Promise<unknown> {
    const child = spawn(process.execPath, [...process.execArgv, MAIN, ...args, '--json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: this.#stop.signal,
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    const [stdout, stderr, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      ended,
    ]);
    if (code === 0) return JSON.parse(stdout);
    throw new Error(failureIn(stderr));
  }
}

/** Returns the failure, which is the last line of stderr after lines of progress. */
function failureIn(stderr: string): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  try {
    const { error } = JSON.parse(line) as { error: { message: string } };
    return error.message;
  } catch {
    return line;
  }
}
