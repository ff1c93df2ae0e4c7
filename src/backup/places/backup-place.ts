/**
 * The interface of a place for backups: a folder (folder-place.ts) or a bucket (bucket-place.ts). locate-place.ts finds
 * the place by the name that an operator writes.
 */
import { basename } from 'node:path';
import type { JournalRow } from '../store/journal-rows.ts';
import type { Sink } from '../format.ts';

/** A place that cannot store or return a backup. The message is for the operator. */
export class PlaceProblem extends Error {
  override readonly name = 'PlaceProblem';
}

export type Destination = Sink & {
  /** Makes the backup visible under its name, after all of it was written. */
  finish(): Promise<void>;
  abandon(): Promise<void>;
};

/** Backups and the journal beside them. Each method throws PlaceProblem, or S3Problem in a bucket. */
export type BackupPlace = {
  /** The place as an operator writes it. Names of backups are full paths in the same form. */
  readonly name: string;
  /** Begins a backup. @param bytes the expected size */
  create(file: string, bytes: number): Promise<Destination>;
  read(file: string): AsyncIterable<Buffer>;
  /** Lists finished backups with a time in their name, the oldest first. */
  list(): Promise<string[]>;
  remove(file: string): Promise<void>;
  /** Removes unfinished backups of machines that were lost. */
  removeUnfinished(nowMs: number): Promise<void>;
  readonly journal: Journal;
};

/**
 * One line of JSON for each suppression and each idempotency key since the oldest backup. A restore replays the lines
 * that are newer than its backup (backup/store/journal-rows.ts).
 */
export type Journal = {
  append(rows: readonly JournalRow[]): Promise<void>;
  /** Reads the rows from a time on, in the order of writing. Empty when there is no journal. */
  read(sinceMs: number): AsyncIterable<JournalRow>;
  /** Returns the time of the newest row; null when there is none. */
  newest(): Promise<number | null>;
  /** Drops rows that no backup needs. Not while rows are appended. @param oldestMs time of the oldest backup */
  shorten(oldestMs: number): Promise<void>;
};

/** Returns `letterhaus-20261125T090000Z.backup`. The names sort by time. */
export function backupName(nowMs: number): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `letterhaus-${time}.backup`;
}

/** Returns the time in the name of a backup, in milliseconds since 1970; null when it has none. */
export function backupTimeMs(path: string): number | null {
  const [, ...parts] =
    /^letterhaus-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.backup$/.exec(basename(path)) ?? [];
  const [year, month, day, hour, minute, second] = parts;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(ms) ? null : ms;
}

export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MB`;
}
