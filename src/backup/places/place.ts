/**
 * What backups need of the place where they are: a folder (files.ts) or a bucket (objects.ts). locate.ts finds it by
 * the name that an operator writes.
 */
import { basename } from 'node:path';
import type { JournalRow } from '../store/journal.ts';
import type { Sink } from '../format.ts';

/** A place that cannot take or give a backup, as a sentence for the operator. */
export class PlaceProblem extends Error {
  override readonly name = 'PlaceProblem';
}

export type Destination = Sink & {
  /** Makes the backup visible under its name, when all of it was written. */
  finish(): Promise<void>;
  abandon(): Promise<void>;
};

/** Backups and the journal beside them. Each method throws PlaceProblem, or S3Problem in a bucket. */
export type BackupPlace = {
  /** As an operator writes it, and so are the names of backups: whole paths. */
  readonly name: string;
  /** Begins a backup. @param bytes the size to expect */
  create(file: string, bytes: number): Promise<Destination>;
  read(file: string): AsyncIterable<Buffer>;
  /** The finished backups with a time in their name, the oldest first. */
  list(): Promise<string[]>;
  remove(file: string): Promise<void>;
  /** What machines left behind that were lost while they made a backup. */
  removeUnfinished(nowMs: number): Promise<void>;
  readonly journal: Journal;
};

/**
 * One line of JSON for each suppression and each idempotency key since the oldest backup. A restore replays what is newer
 * than its backup (backup/store/journal.ts).
 */
export type Journal = {
  /** Resolves when the rows are stored. */
  append(rows: readonly JournalRow[]): Promise<void>;
  /** The rows from a time on, in the order in which they were written; none when there is no journal. */
  read(sinceMs: number): AsyncIterable<JournalRow>;
  /** The time of its newest row; null: it has none. */
  newest(): Promise<number | null>;
  /** Drops what no backup needs. Not while rows are appended. @param oldestMs the time of the oldest backup */
  shorten(oldestMs: number): Promise<void>;
};

/** `letterhaus-20261125T090000Z.backup`: sorts by time. */
export function backupName(nowMs: number): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `letterhaus-${time}.backup`;
}

/** When it was made, by its name, in milliseconds since 1970; null: the name has no time. */
export function timeOf(path: string): number | null {
  const [, ...parts] =
    /^letterhaus-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.backup$/.exec(basename(path)) ?? [];
  const [year, month, day, hour, minute, second] = parts;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(ms) ? null : ms;
}

export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MB`;
}
