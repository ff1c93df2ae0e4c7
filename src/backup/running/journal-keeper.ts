/**
 * Appends suppressions and idempotency keys to the journal beside scheduled backups, every few seconds. It begins where
 * the journal ends, or at the oldest backup. So it also stores rows from before a restart.
 */
import type { Logger } from 'pino';
import { type BackupPlace, backupTimeMs } from '../places/backup-place.ts';
import { readDatabaseTime, type JournalRow, readJournalRows } from '../store/journal-rows.ts';
import type { Queryable } from '../../database/database.ts';
import { DAY_MS, HOUR_MS } from '../../lib/units.ts';

/** A statement ends after 20 s. By then, rows with an earlier time are committed. */
const OVERLAP_MS = 25_000;
/** Time range of one statement. Keys are kept for a day; older ranges have only suppressions. */
const WINDOW_MS = 5 * 60_000;
const OLD_WINDOW_MS = DAY_MS;
const KEYS_FOR_MS = 26 * HOUR_MS;

type JournalKeeperOptions = {
  db: Queryable;
  log: Pick<Logger, 'warn'>;
  isStopping: () => boolean;
};

type JournalPlace = Pick<BackupPlace, 'list' | 'journal'>;

export class JournalKeeper {
  readonly #db: Queryable;
  readonly #place: JournalPlace;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #isStopping: () => boolean;
  #sinceMs: number | null = null;
  /** Rows of the overlap that are in the journal already. */
  #written = new Map<string, number>();
  #problem: string | null = null;

  constructor(place: JournalPlace, options: JournalKeeperOptions) {
    this.#place = place;
    this.#db = options.db;
    this.#log = options.log;
    this.#isStopping = options.isStopping;
  }

  /** Appends new rows. A failure is logged once, and the next call appends its rows. */
  async run(): Promise<void> {
    try {
      await this.#append();
      this.#problem = null;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== this.#problem && !this.#isStopping()) {
        this.#log.warn(
          { reason },
          'this node could not write the journal of backups; it retries every few seconds',
        );
      }
      this.#problem = reason;
    }
  }

  /** Drops rows that no backup needs. Not while `run` is running. */
  async shorten(): Promise<void> {
    const [oldest] = await this.#place.list();
    const oldestMs = oldest === undefined ? null : backupTimeMs(oldest);
    if (oldestMs !== null) await this.#place.journal.shorten(oldestMs);
  }

  async #append(): Promise<void> {
    const nowMs = (await readDatabaseTime(this.#db)).getTime();
    this.#sinceMs ??= (await this.#readStartMs()) ?? nowMs;
    while (this.#sinceMs < nowMs) {
      if (this.#isStopping()) return;
      const keysFromMs = nowMs - KEYS_FOR_MS;
      const isOld = this.#sinceMs < keysFromMs;
      const toMs: number = isOld
        ? Math.min(keysFromMs, this.#sinceMs + OLD_WINDOW_MS)
        : Math.min(nowMs, this.#sinceMs + WINDOW_MS);
      const from = new Date(this.#sinceMs - OVERLAP_MS);
      const rows = await readJournalRows(this.#db, { from, to: new Date(toMs) });
      const newRows = rows.filter((row) => !this.#written.has(keyOf(row)));
      await this.#place.journal.append(newRows);
      for (const row of newRows) this.#written.set(keyOf(row), Date.parse(row.at));
      this.#sinceMs = toMs;
      this.#dropOverlap(toMs - OVERLAP_MS);
    }
    // Differs only after the clock of the database was set back.
    this.#sinceMs = nowMs;
  }

  async #readStartMs(): Promise<number | null> {
    const newestMs = await this.#place.journal.newest();
    if (newestMs !== null) return newestMs;
    const [oldest] = await this.#place.list();
    return oldest === undefined ? null : backupTimeMs(oldest);
  }

  #dropOverlap(beforeMs: number): void {
    for (const [key, atMs] of this.#written) if (atMs <= beforeMs) this.#written.delete(key);
  }
}

function keyOf({ table, at, row }: JournalRow): string {
  const { project_id: project, environment, key, address_key: address } = row;
  return JSON.stringify([table, at, project, environment, key ?? address]);
}
