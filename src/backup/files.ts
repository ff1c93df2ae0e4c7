/**
 * Where a backup is written to and read from: a file or a pipe.
 *
 * A file is written under another name beside its own, which it gets when all of it is on disk. So a file
 * with the name of a backup is a complete one, whatever happened while it was made.
 */
import { createReadStream } from 'node:fs';
import { open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Writable } from 'node:stream';
import type { Sink } from './format.ts';

/** A place that cannot take or give a backup, as a sentence for the operator. */
export class PlaceProblem extends Error {
  override readonly name = 'PlaceProblem';
}

export type Destination = Sink & {
  /** Makes the backup visible under its name, when all of it was written. */
  finish(): Promise<void>;
  /** Removes what was written. */
  abandon(): Promise<void>;
};

const UNFINISHED = '.unfinished';
const MAGIC = 'letterhaus backup ';

/** `letterhaus-20261125T090000Z.backup`: sorts by time. */
export function backupName(nowMs: number): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `letterhaus-${time}.backup`;
}

/** The file for a new backup: a folder gets one with the time in its name. */
export async function filePath(path: string, nowMs: number): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found?.isDirectory() === true ? join(path, backupName(nowMs)) : resolve(path);
}

/**
 * Opens a file for a backup.
 * @param room the size to expect, and the free space of a folder
 * @throws PlaceProblem when it cannot be written, has other content, or there is too little room
 */
export async function fileDestination(
  path: string,
  room: { bytes: number; freeBytes?: (folder: string) => Promise<number> },
): Promise<Destination> {
  const folder = dirname(path);
  await requireReplaceable(path);
  await requireRoom(folder, room);
  // Two that are made at the same time do not meet.
  const unfinished = join(folder, `.${basename(path)}.${process.pid}${UNFINISHED}`);
  const file = await open(unfinished, 'w', 0o600).catch((error: unknown) => {
    throw unusable(path, error);
  });
  return {
    write: async (bytes) => {
      for (let from = 0; from < bytes.length;) {
        const { bytesWritten } = await file.write(bytes, from).catch((error: unknown) => {
          throw unusable(path, error);
        });
        from += bytesWritten;
      }
    },
    finish: async () => {
      await file.sync();
      await file.close();
      await rename(unfinished, path);
      const parent = await open(folder, 'r');
      await parent.sync();
      await parent.close();
    },
    abandon: async () => {
      await file.close().catch(() => {});
      await rm(unfinished, { force: true });
    },
  };
}

/** A file of another kind is not overwritten by a mistyped name. */
async function requireReplaceable(path: string): Promise<void> {
  const file = await open(path, 'r').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw unusable(path, error);
  });
  if (file === null) return;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
  await file.close();
  if (buffer.toString('latin1', 0, bytesRead) === MAGIC) return;
  throw new PlaceProblem(`${path} exists and is no backup of Letterhaus: choose another name.`);
}

async function requireRoom(
  folder: string,
  { bytes, freeBytes = freeBytesOf }: Parameters<typeof fileDestination>[1],
): Promise<void> {
  const free = await freeBytes(folder).catch((error: unknown) => {
    throw unusable(folder, error);
  });
  if (free >= bytes) return;
  throw new PlaceProblem(
    `There is too little room in ${folder}: the backup may take ${megabytes(bytes)}, and ${megabytes(free)} are free.`,
  );
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MB`;
}

/** A pipe gets the bytes as they are made: its reader knows by the trailer whether they are complete. */
export function pipeDestination(stream: Writable): Destination {
  return {
    write: (bytes) =>
      new Promise((done, fail) => {
        stream.write(bytes, (error) => (error ? fail(error) : done()));
      }),
    finish: () => Promise.resolve(),
    abandon: () => Promise.resolve(),
  };
}

/** @throws PlaceProblem while it is read */
export async function* readBackupFile(path: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 ** 2 })) {
      yield chunk as Buffer;
    }
  } catch (error) {
    if (typeof (error as NodeJS.ErrnoException).code !== 'string') throw error;
    throw unusable(path, error);
  }
}

/** The finished backups of a folder, the oldest first. @throws PlaceProblem */
export async function listBackups(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw unusable(folder, error);
  });
  return names
    .map((name) => join(folder, name))
    .filter((path) => timeOf(path) !== null)
    .toSorted();
}

/** When it was made, by its name, in milliseconds since 1970; null: the name has no time. */
export function timeOf(path: string): number | null {
  const [, ...parts] =
    /^letterhaus-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.backup$/.exec(basename(path)) ?? [];
  const [year, month, day, hour, minute, second] = parts;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(ms) ? null : ms;
}

function unusable(path: string, error: unknown): PlaceProblem {
  const { code = 'error' } = error as NodeJS.ErrnoException;
  const why = code === 'ENOSPC' ? 'the disk is full' : code;
  return new PlaceProblem(`${path} cannot be used (${why}).`);
}
