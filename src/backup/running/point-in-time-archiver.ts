/**
 * Keeps an archive for restores to a point in time (LETTERHAUS_POINT_IN_TIME) in a folder or a bucket. It archives the
 * WAL of the embedded engine every few seconds, makes base backups, and removes old ones
 * (backup/point-in-time/archive.ts).
 *
 * Mail never waits for the archive. While it cannot be written, PostgreSQL keeps WAL on its own disk. When that grows
 * too large, or the disk runs low, the WAL is given up. A new series begins with a base backup as soon as the archive
 * can be written. Times between the two cannot be restored, and a condition reports that to the operator.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import packageFile from '../../../package.json' with { type: 'json' };
import { pathProblem } from '../places/folder-place.ts';
import { archiveAt } from '../places/locate-place.ts';
import { beginSeries, readKeys, readSeries, type Series } from '../point-in-time/archive.ts';
import { appendCovered } from '../point-in-time/covered-log.ts';
import type { ArchivePlace } from '../point-in-time/archive-place.ts';
import { prune } from '../point-in-time/prune-archive.ts';
import { positionOf } from '../point-in-time/segments.ts';
import { archiveBase, archiveKey, archiveWal, WalGone } from '../point-in-time/write-archive.ts';
import { sealingOf } from '../sealed-key.ts';
import type { Config } from '../../config/config.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import {
  advanceSlot,
  createSlot,
  dropSlot,
  dropSlots,
  listSlots,
  markTime,
  readWalState,
  seriesName,
  type WalState,
} from '../store/wal.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../../database/database.ts';
import { secretKeyId, parseSecretKeys } from '../../secrets/secret-keys.ts';
import { readSecretKey } from '../../secrets/secret-key-file.ts';
import { JournalKeeper } from './journal-keeper.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import type { WorkerPool } from '../../service/pool/worker-pool.ts';
import { GIB } from '../../lib/units.ts';

const ARCHIVE_EVERY_MS = 5_000;
/** Time without an answer after which a network file system or a bucket counts as a failure. */
const SILENCE_MAX_MS = 60_000;
const WATCH_EVERY_MS = 10_000;
const STOP_WITHIN_MS = 5_000;
const BASE_RETRY_MS = 10 * 60_000;
/** Below 1 GiB mail is refused. The WAL is given up before that. */
const DISK_FREE_MIN_BYTES = 2 * GIB;

export type PointInTimeOptions = {
  config: Config;
  database: {
    db: Queryable;
    address: DatabaseAddress;
    dataDir: string;
    readFreeDiskBytes(): Promise<number | null>;
  };
  pool: Pick<WorkerPool, 'setArchivedTimes'>;
  operatorEvents: OperatorEvents;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
};

export class PointInTimeArchiver implements AsyncDisposable {
  readonly #place: ArchivePlace;
  readonly #options: PointInTimeOptions;
  readonly #journal: JournalKeeper;
  readonly #stop = new AbortController();
  /** Aborts requests to a bucket that are still running after a stop has waited for them. */
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  #client: pg.Client | null = null;
  #series: Series | null = null;
  #keyIds = '';
  #base: Promise<void> = Promise.resolve();
  #isBaseRunning = false;
  #baseRetryAtMs = -Infinity;
  /** Old files are removed after a base backup, while nothing else is written. */
  #mayPrune = true;
  #problem: string | null = null;
  /** Start of the current turn; null between turns. */
  #turnStartedMs: number | null = null;
  readonly #silenceTimer: NodeJS.Timeout;

  constructor(to: string, options: PointInTimeOptions) {
    const { signal } = this.#end;
    this.#place = archiveAt(to, { access: options.config.backup.s3, world: systemWorld, signal });
    this.#options = options;
    // The journal begins before the first base backup.
    const place = { list: () => Promise.resolve([]), journal: this.#place.journal };
    this.#journal = new JournalKeeper(place, {
      db: options.database.db,
      log: options.log,
      isStopping: () => this.#stop.signal.aborted,
    });
    this.#running = this.#run();
    this.#silenceTimer = setInterval(() => void this.#checkSilence(), WATCH_EVERY_MS).unref();
  }

  /** Archives everything committed until now, if the archive can be written. The next start archives the rest. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#silenceTimer);
    await waitAtMost(STOP_WITHIN_MS, this.#archiveRest());
    this.#end.abort();
    await this.#client?.end().catch(() => {});
  }

  async #archiveRest(): Promise<void> {
    await this.#running;
    await this.#base;
    await this.#archiveOnce().catch(() => {});
  }

  async #checkSilence(): Promise<void> {
    const nowMs = systemWorld.monotonicMs();
    if (nowMs - (this.#turnStartedMs ?? nowMs) < SILENCE_MAX_MS) return;
    this.#reportProblem('The archive does not answer.');
    await this.#giveUpWhenDiskIsLow();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        this.#turnStartedMs = systemWorld.monotonicMs();
        await this.#archiveOnce();
        await this.#journal.run();
        await this.#pruneIfDue();
        this.#reportRecovery();
      } catch (error) {
        await this.#handleFailure(error);
      }
      this.#turnStartedMs = null;
      await pause(ARCHIVE_EVERY_MS, null, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  async #archiveOnce(): Promise<void> {
    const db = await this.#connect();
    const series = await this.#activeSeries(db);
    await this.#archiveKey(db, series);
    const at = await markTime(db);
    const { flushedLsn, dataDirectory } = await readWalState(db);
    const slot = (await listSlots(db)).find(({ name }) => name === series.name);
    if (slot?.restartLsn == null) throw new WalGone(GAP_MESSAGE);
    const keepFrom = await archiveWal(this.#place, series, {
      from: positionOf(slot.restartLsn),
      to: positionOf(flushedLsn),
      pgWal: join(dataDirectory, 'pg_wal'),
      onSegment: () => this.#noteProgress(),
    });
    const covered = { at: at.toISOString(), lsn: flushedLsn };
    const { name, coveredPart: last } = series;
    series.coveredPart = await appendCovered(this.#place, { series: name, last, covered });
    series.covered = covered;
    if (positionOf(keepFrom) > positionOf(slot.restartLsn)) {
      await advanceSlot(db, series.name, keepFrom);
    }
    this.#reportCoverage(series);
    this.#makeBaseIfDue(series);
  }

  /** Restarts the time limit, so that a long turn does not count as an archive that does not answer. */
  #noteProgress(): void {
    if (this.#turnStartedMs !== null) this.#turnStartedMs = systemWorld.monotonicMs();
  }

  async #connect(): Promise<Queryable> {
    this.#client ??= await connectAsOwner(this.#options.database.address, 'point in time');
    return clientQueries(this.#client);
  }

  /** Returns the series of the slot. Begins a new one when there is none, or when its WAL is gone. */
  async #activeSeries(db: Queryable): Promise<Series> {
    const state = await readWalState(db);
    const slots = await listSlots(db);
    if (this.#series === null) {
      const slot = slots.findLast(({ isLost }) => !isLost);
      const found = slot === undefined ? null : await readSeries(this.#place, slot.name);
      if (found !== null && isSeriesOf(state, found)) {
        await this.#place.removeUnfinished(found.name);
        this.#keyIds = (await readKeys(this.#place, found.name)).at(-1)?.keyIds.join() ?? '';
        this.#series = found;
      }
    }
    const present = this.#series;
    const isKept = slots.some(({ name, isLost }) => name === present?.name && !isLost);
    if (present !== null && isKept) return present;
    if (slots.length > 0) this.#reportProblem(GAP_MESSAGE);
    for (const { name } of slots) await dropSlot(db, name);
    this.#series = null;
    return this.#beginSeries(db, state);
  }

  async #beginSeries(db: Queryable, state: WalState): Promise<Series> {
    const name = seriesName(state.now, randomBytes(4).toString('hex'));
    const { system, timeline, segmentBytes } = state;
    const series = await beginSeries(this.#place, {
      name,
      shape: { system, timeline, segmentBytes },
    });
    await createSlot(db, name);
    this.#series = series;
    this.#keyIds = '';
    const archive = this.#place.pathOf(name);
    this.#options.log.info({ archive }, 'WAL is archived for a restore to a time');
    return series;
  }

  async #archiveKey(db: Queryable, series: Series): Promise<void> {
    const { config, database } = this.#options;
    const secretKey = config.secretKey ?? readSecretKey(database.dataDir);
    if (secretKey === null) throw new Error(`there is no secret key in ${database.dataDir}`);
    const ids = parseSecretKeys(secretKey).map(secretKeyId).join();
    if (ids === this.#keyIds) return;
    const { now: at } = await readWalState(db);
    await archiveKey(this.#place, series, { at, secretKey, sealing: sealingOf(config.backup)! });
    this.#keyIds = ids;
  }

  #makeBaseIfDue(series: Series): void {
    if (this.#isBaseRunning || this.#stop.signal.aborted) return;
    if (systemWorld.monotonicMs() < this.#baseRetryAtMs) return;
    const newest = series.bases.at(-1);
    const { everyMs } = this.#options.config.backup.pointInTime;
    const atMs = Date.parse(series.covered?.at ?? '');
    if (newest !== undefined && atMs < Date.parse(newest.usableFrom) + everyMs) return;
    this.#isBaseRunning = true;
    this.#base = this.#makeBase(series).finally(() => (this.#isBaseRunning = false));
  }

  async #makeBase(series: Series): Promise<void> {
    const { database, log } = this.#options;
    const { address } = database;
    try {
      const { version } = packageFile;
      const { signal } = this.#stop;
      const client = await connectAsOwner(address, 'base backup');
      try {
        const base = await archiveBase(this.#place, series, {
          address,
          db: clientQueries(client),
          version,
          signal,
        });
        series.bases.push(base);
        const file = this.#place.pathOf(base.archive);
        log.info({ file, bytes: base.archiveBytes }, 'a base backup was made');
      } finally {
        await client.end();
      }
      this.#mayPrune = true;
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#baseRetryAtMs = systemWorld.monotonicMs() + BASE_RETRY_MS;
      this.#reportProblem(`The base backup failed: ${messageOf(error)}`);
    }
  }

  async #pruneIfDue(): Promise<void> {
    const active = this.#series;
    if (!this.#mayPrune || this.#isBaseRunning || active?.covered == null) return;
    const { keepMs } = this.#options.config.backup.pointInTime;
    const cutoff = new Date(Date.parse(active.covered.at) - keepMs);
    const { oldest, isUnfinished } = await prune(this.#place, { active, cutoff });
    active.bases = active.bases.filter(({ usableFrom }) => oldest === null || usableFrom >= oldest);
    if (oldest !== null) await this.#place.journal.shorten(Date.parse(oldest));
    this.#mayPrune = isUnfinished;
  }

  #reportCoverage({ bases, covered }: Series): void {
    this.#options.pool.setArchivedTimes({
      coveredMs: bases.length === 0 ? 0 : Date.parse(covered?.at ?? ''),
      baseMs: Date.parse(bases.at(-1)?.usableFrom ?? '') || 0,
    });
  }

  async #handleFailure(reason: unknown): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => {});
    // PostgreSQL may have crashed, and then writes the end of its WAL anew.
    if (this.#series !== null) this.#series.partial = null;
    if (this.#stop.signal.aborted) return;
    if (reason instanceof WalGone) {
      // The next turn begins a new series.
      await dropSlots(this.#options.database.address).catch(() => {});
      this.#series = null;
      return this.#reportProblem(GAP_MESSAGE);
    }
    this.#reportProblem(`WAL could not be archived: ${messageOf(reason)}`);
    await this.#giveUpWhenDiskIsLow();
  }

  async #giveUpWhenDiskIsLow(): Promise<void> {
    const { database } = this.#options;
    const free = await database.readFreeDiskBytes().catch(() => null);
    if (free === null || free >= DISK_FREE_MIN_BYTES) return;
    await dropSlots(database.address).catch(() => {});
    this.#series = null;
    this.#reportProblem(GAP_MESSAGE);
  }

  #reportProblem(message: string): void {
    const { operatorEvents, log } = this.#options;
    if (message !== this.#problem) {
      log.error(
        { reason: message, to: this.#place.name },
        'the archive for a restore to a point in time is behind',
      );
    }
    this.#problem = message;
    operatorEvents.raise({
      type: 'backup.failed',
      subject: this.#place.name,
      message: `The archive in ${this.#place.name} is behind. ${message}`,
      remedy:
        'Fix the cause. The service retries every few seconds, and mail continues meanwhile. See docs/backup.md.',
    });
  }

  #reportRecovery(): void {
    if ((this.#series?.bases.length ?? 0) === 0) return;
    this.#problem = null;
    this.#options.operatorEvents.clear({ type: 'backup.failed', subject: this.#place.name });
  }
}

const GAP_MESSAGE =
  'PostgreSQL has removed WAL that is not in the archive, so times after the last archived one cannot be restored. A new base backup is made as soon as the archive can be written.';

function isSeriesOf({ system, timeline }: WalState, { shape }: Series): boolean {
  return shape.system === system && shape.timeline === timeline;
}

function messageOf(error: unknown): string {
  // A file operation failed because the archive became unavailable.
  const { code, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (code !== undefined && path !== undefined) return pathProblem(path, error).message;
  return error instanceof Error ? error.message : String(error);
}
