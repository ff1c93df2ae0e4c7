/**
 * Backups made by the service itself (LETTERHAUS_BACKUP_TO): a new one when the newest is older than the
 * interval, also after a restart; it is read back and checked, and only then old ones are removed.
 *
 * Each is made by `letterhaus backup` in a process of its own, so that neither its work nor its end
 * touches the supervisor. A failure is logged and tried again; the newest good backup stays.
 */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { overdueBackup } from '../age.ts';
import { placeOf } from '../places/locate.ts';
import { type BackupPlace, timeOf } from '../places/place.ts';
import type { BackupConfig } from '../../config/backup.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import { JournalKeeper } from './journal-keeper.ts';
import { pause } from '../../lib/pause.ts';
import type { Queryable } from '../../database/database.ts';
import type { WorkerPool } from '../../service/worker/pool.ts';

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url));
/** A failure is tried again after this time, or after the interval if that is shorter. */
const AGAIN_MS = 10 * 60_000;
const LOOK_EVERY_MS = 60_000;
const JOURNAL_EVERY_MS = 5_000;

type ScheduleOptions = {
  backup: BackupConfig;
  db: Queryable;
  pool: Pick<WorkerPool, 'noteBackup'>;
  operatorEvents: OperatorEvents;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
};

/** Runs until it is disposed, which ends a backup that is being made. */
export function scheduleBackups(options: ScheduleOptions): AsyncDisposable {
  const { to } = options.backup;
  if (to === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  return new Schedule(to, options);
}

class Schedule implements AsyncDisposable {
  readonly #place: BackupPlace;
  readonly #options: ScheduleOptions;
  readonly #journal: JournalKeeper;
  readonly #stop = new AbortController();
  readonly #sinceMs = systemWorld.now();
  #newestMs: number | null = null;
  #mayShorten = false;
  /** After a failure. */
  #againAtMs = -Infinity;
  readonly #running: Promise<unknown>;

  constructor(to: string, options: ScheduleOptions) {
    const { signal } = this.#stop;
    this.#place = placeOf(to, { access: options.backup.s3, world: systemWorld, signal });
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
      const waitMs = await this.#turn();
      // The clock may be set.
      await pause(Math.min(waitMs, LOOK_EVERY_MS), this.#stop.signal);
    }
  }

  async #keepJournal(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#journal.run();
      if (this.#mayShorten) await this.#journal.shorten().catch(() => {});
      this.#mayShorten = false;
      await pause(JOURNAL_EVERY_MS, this.#stop.signal);
    }
  }

  /** Beside `run`, which may be what hangs. */
  async #watchAge(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await pause(LOOK_EVERY_MS, this.#stop.signal);
      this.#lookAtAge();
    }
  }

  #lookAtAge(): void {
    const { backup, operatorEvents } = this.#options;
    const overdue = overdueBackup(this.#place.name, {
      newestMs: this.#newestMs,
      sinceMs: this.#sinceMs,
      everyMs: backup.everyMs,
      nowMs: systemWorld.now(),
    });
    if (overdue !== null) operatorEvents.raise(overdue);
    else operatorEvents.clear({ type: 'backup.overdue', subject: this.#place.name });
  }

  #noteGood(atMs: number): void {
    this.#newestMs = atMs;
    this.#options.pool.noteBackup({ isGood: true, atMs });
    this.#lookAtAge();
  }

  /** @returns the milliseconds until the next look */
  async #turn(): Promise<number> {
    const { backup, pool, operatorEvents, log } = this.#options;
    const failed = { type: 'backup.failed', subject: this.#place.name } as const;
    try {
      const againInMs = this.#againAtMs - systemWorld.monotonicMs();
      const waitMs = Math.max(againInMs, againInMs > 0 ? 0 : await this.#dueInMs());
      if (waitMs > 0) return waitMs;
      const file = await this.#makeOne();
      await this.#tidy(() => this.#removeOld());
      this.#mayShorten = true;
      this.#noteGood(timeOf(file) ?? systemWorld.now());
      operatorEvents.clear(failed);
      log.info({ file }, 'a backup was made and checked');
      return backup.everyMs;
    } catch (error) {
      if (this.#stop.signal.aborted) return 0;
      pool.noteBackup({ isGood: false, atMs: systemWorld.now() });
      const reason = error instanceof Error ? error.message : String(error);
      log.error(
        { reason, to: this.#place.name },
        'a backup failed; it is tried again (docs/backup.md)',
      );
      operatorEvents.raise({
        ...failed,
        message: `The last backup to ${this.#place.name} failed: ${reason}`,
        remedy: 'Mend the reason; the service tries again within ten minutes. See docs/backup.md.',
      });
      const againInMs = Math.min(AGAIN_MS, backup.everyMs);
      this.#againAtMs = systemWorld.monotonicMs() + againInMs;
      return againInMs;
    }
  }

  /** By the newest file: a restart neither makes one too many nor leaves one out. */
  async #dueInMs(): Promise<number> {
    const newest = (await this.#place.list()).at(-1);
    const madeMs = newest === undefined ? null : timeOf(newest);
    if (madeMs === null) return 0;
    this.#noteGood(madeMs);
    return madeMs + this.#options.backup.everyMs - systemWorld.now();
  }

  /** @returns the file, which was read back and is good */
  async #makeOne(): Promise<string> {
    await this.#tidy(() => this.#place.removeUnfinished(systemWorld.now()));
    const made = (await this.#command('backup', this.#place.name)) as { file: string };
    try {
      await this.#command('backup', '--verify', made.file);
    } catch (error) {
      await this.#place.remove(made.file).catch(() => {});
      throw error;
    }
    return made.file;
  }

  async #removeOld(): Promise<void> {
    const old = (await this.#place.list()).slice(0, -this.#options.backup.keep);
    for (const file of old) await this.#place.remove(file);
  }

  /** A bucket may deny removal, so that nobody who takes this machine over can remove backups. */
  async #tidy(remove: () => Promise<void>): Promise<void> {
    try {
      await remove();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.log.warn({ reason }, 'old backups could not be removed');
    }
  }

  /** @returns what it prints with --json @throws with its sentence */
  async #command(...args: string[]): Promise<unknown> {
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
    throw new Error(sentenceOf(stderr));
  }
}

/** The last line of stderr is the failure; lines of progress come before it. */
function sentenceOf(stderr: string): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  try {
    const { error } = JSON.parse(line) as { error: { message: string } };
    return error.message;
  } catch {
    return line;
  }
}
