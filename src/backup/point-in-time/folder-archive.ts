/**
 * An archive of WAL in a folder. A file is written under another name and renamed when it is on disk. So a file that
 * has its name is complete.
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileDestination, readBackupFile, pathProblem } from '../places/folder-place.ts';
import { fileJournal } from '../places/folder-journal.ts';
import type { ArchivePlace } from './archive-place.ts';

const UNFINISHED = '.unfinished';

export function folderArchive(folder: string): ArchivePlace {
  const pathOf = (name: string): string => join(folder, name);
  const fail = (path: string) => (error: unknown) => {
    throw pathProblem(path, error);
  };
  /** Returns null for a missing file in a folder that exists. A missing folder is an error. */
  const absent = async (reason: unknown): Promise<null> => {
    if ((reason as NodeJS.ErrnoException).code !== 'ENOENT') throw pathProblem(folder, reason);
    await stat(folder).catch(fail(folder));
    return null;
  };
  return {
    name: folder,
    journal: fileJournal(folder),
    pathOf,
    makeFolder: (name) => makeFolder(pathOf(name)).catch(fail(folder)),
    removeFolder: (name) => rm(pathOf(name), { recursive: true, force: true }).catch(fail(folder)),
    list: async (prefix) => {
      const parent = prefix.slice(0, prefix.lastIndexOf('/') + 1);
      const names = await readdir(pathOf(parent)).catch(absent);
      const all = (names ?? []).filter((name) => !name.endsWith(UNFINISHED));
      return all
        .map((name) => `${parent}${name}`)
        .filter((name) => name.startsWith(prefix))
        .toSorted();
    },
    get: (name) => readFile(pathOf(name)).catch(absent),
    read: (name) => readBackupFile(pathOf(name)),
    put: (name, bytes) => writeDurably(pathOf(name), bytes).catch(fail(dirname(pathOf(name)))),
    // The size is unknown, because the archive is compressed.
    create: (name) => fileDestination(pathOf(name), { bytes: 0 }),
    remove: async (names) => {
      for (const name of names) await rm(pathOf(name), { force: true }).catch(fail(folder));
    },
    removeUnfinished: async (series) => {
      const options = { recursive: true, withFileTypes: true } as const;
      const found = await readdir(pathOf(series), options).catch(fail(folder));
      for (const { name, parentPath } of found) {
        if (name.endsWith(UNFINISHED)) await rm(join(parentPath, name), { force: true });
      }
    },
  };
}

async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  });
  await syncFolder(dirname(path));
}

async function writeDurably(path: string, bytes: Buffer): Promise<void> {
  const unfinished = `${path}${UNFINISHED}`;
  const file = await open(unfinished, 'w', 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
  await syncFolder(dirname(path));
}

async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}
