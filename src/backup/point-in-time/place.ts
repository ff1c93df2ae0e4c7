/**
 * What the archive of WAL needs of the place where it is: a folder (folder.ts) or a bucket (bucket.ts).
 *
 * Names are relative to the place. What has a name is whole, whatever interrupted its writing. Each method throws
 * PlaceProblem, or S3Problem in a bucket, when the place is away: that is never taken for an empty one.
 */
import type { Destination, Journal } from '../places/place.ts';

export type ArchivePlace = {
  readonly name: string;
  readonly journal: Journal;
  /** For messages. */
  pathOf(name: string): string;
  /** Before something is put into it. Not the place itself: a disk that is not mounted must not become a folder. */
  makeFolder(name: string): Promise<void>;
  removeFolder(name: string): Promise<void>;
  /** What begins with the prefix, in one folder, sorted. Empty when there is no such folder. */
  list(prefix: string): Promise<string[]>;
  /** null: it is not there. */
  get(name: string): Promise<Buffer | null>;
  read(name: string): AsyncIterable<Buffer>;
  /** Resolves when the bytes are stored for good. It replaces what has this name. */
  put(name: string, bytes: Buffer): Promise<void>;
  /** Begins something large. @param bytes about how large */
  create(name: string, bytes: number): Promise<Destination>;
  /** Also what is gone already. */
  remove(names: readonly string[]): Promise<void>;
  /** What a lost machine has left in a series that nobody writes now. */
  removeUnfinished(series: string): Promise<void>;
};
