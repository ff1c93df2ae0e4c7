/**
 * The interface of a place for the archive of WAL: a folder (folder-archive.ts) or a bucket (bucket-archive.ts).
 *
 * Names are relative to the place. A file that has a name is complete, whatever interrupts its writing. Each method
 * throws PlaceProblem, or S3Problem in a bucket, when the place is unavailable. An unavailable place is never treated
 * as an empty one.
 */
import type { Destination, Journal } from '../places/backup-place.ts';

export type ArchivePlace = {
  readonly name: string;
  readonly journal: Journal;
  /** For messages. */
  pathOf(name: string): string;
  /**
   * Creates a folder inside the place. Never creates the place itself: a disk that is not mounted must not become a
   * folder.
   */
  makeFolder(name: string): Promise<void>;
  removeFolder(name: string): Promise<void>;
  /** Lists names with this prefix in one folder, sorted. Empty when there is no such folder. */
  list(prefix: string): Promise<string[]>;
  get(name: string): Promise<Buffer | null>;
  read(name: string): AsyncIterable<Buffer>;
  /** Resolves when the bytes are stored durably. Replaces a file of this name. */
  put(name: string, bytes: Buffer): Promise<void>;
  /** Begins a large file. @param bytes approximate size */
  create(name: string, bytes: number): Promise<Destination>;
  /** Removes files, and ignores missing ones. */
  remove(names: readonly string[]): Promise<void>;
  /** Removes leftovers of a lost machine from a series that nobody writes now. */
  removeUnfinished(series: string): Promise<void>;
};
