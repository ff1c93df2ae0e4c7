/**
 * Backups in a folder, and one in a pipe.
 *
 * A file is written under another name beside its own, and renamed when all of it is on disk. So a file with the name
 * of a backup is complete, whatever happened while it was made.
 */
import { createReadStream } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { fileJournal } from './folder-journal.ts';
import {
  type BackupPlace,
  type Destination,
  megabytes,
  PlaceProblem,
  backupTimeMs,
} from './backup-place.ts';
import { readFreeBytes } from '../../database/server/capacity.ts';
import { MIB } from '../../lib/units.ts';

const UNFINISHED = '.unfinished';
const MAGIC = 'letterhaus backup ';

/** Age of an unfinished file after which its machine is lost. A live backup is written to more often. */
const ABANDONED_AFTER_MS = 10 * 60_000;

export function folderPlace(folder: string): BackupPlace {
  return {
    name: folder,
    create: (file, bytes) => fileDestination(file, { bytes }),
    read: readBackupFile,
    list: () => listBackups(folder),
    remove: (file) => rm(file, { force: true }),
    removeUnfinished: (nowMs) => removeUnfinished(folder, nowMs),
    journal: fileJournal(folder),
  };
}

/** The expected size, and a function for the free space of a folder. */
type Space = { bytes: number; freeBytes?: (folder: string) => Promise<number> };

/**
 * Opens a file for a backup.
 * @throws PlaceProblem when it cannot be written, has other content, or there is too little space
 */
export async function fileDestination(path: string, space: Space): Promise<Destination> {
  const folder = dirname(path);
  await requireReplaceable(path);
  await requireSpace(folder, { work: 'backup', ...space });
  const unfinished = join(folder, `.${basename(path)}.${process.pid}${UNFINISHED}`);
  const file = await open(unfinished, 'w', 0o600).catch((error: unknown) => {
    throw pathProblem(path, error);
  });
  return {
    write: async (bytes) => {
      for (let from = 0; from < bytes.length;) {
        const { bytesWritten } = await file.write(bytes, from).catch((error: unknown) => {
          throw pathProblem(path, error);
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

/** Refuses to overwrite a file that is no backup, as after a mistyped name. */
async function requireReplaceable(path: string): Promise<void> {
  const file = await open(path, 'r').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw pathProblem(path, error);
  });
  if (file === null) return;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
  await file.close();
  if (buffer.toString('latin1', 0, bytesRead) === MAGIC) return;
  throw new PlaceProblem(`${path} exists and is no backup of Letterhaus. Choose another name.`);
}

/** @throws PlaceProblem when the disk of the folder has too little space for the work */
export async function requireSpace(
  folder: string,
  { work, bytes, freeBytes = readFreeBytes }: Space & { work: 'backup' | 'restore' | 'move' },
): Promise<void> {
  const free = await freeBytes(folder).catch((error: unknown) => {
    throw pathProblem(folder, error);
  });
  if (free >= bytes) return;
  throw new PlaceProblem(
    `There is too little space in ${folder}: the ${work} may take ${megabytes(bytes)}, and ${megabytes(free)} are free.`,
  );
}

/** A pipe gets the bytes at once. Its reader detects an incomplete backup by the missing trailer. */
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

export async function* readBackupFile(path: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: MIB })) {
      yield chunk as Buffer;
    }
  } catch (error) {
    if (typeof (error as NodeJS.ErrnoException).code !== 'string') throw error;
    throw pathProblem(path, error);
  }
}

async function listBackups(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw pathProblem(folder, error);
  });
  return names
    .map((name) => join(folder, name))
    .filter((path) => backupTimeMs(path) !== null)
    .toSorted();
}

async function removeUnfinished(folder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^\.letterhaus-.*\.unfinished$/.test(name)) continue;
    const path = join(folder, name);
    const { mtimeMs } = await stat(path);
    if (mtimeMs < nowMs - ABANDONED_AFTER_MS) await rm(path, { force: true });
  }
}

export function pathProblem(path: string, error: unknown): PlaceProblem {
  const { code = String(error) } = error as NodeJS.ErrnoException;
  const why = code === 'ENOSPC' ? 'the disk is full' : code;
  return new PlaceProblem(`${path} cannot be used (${why}).`);
}
