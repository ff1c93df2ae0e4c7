/**
 * Folders: made private, given to another user, copied, made durable. No link in them is followed.
 */
import { chmodSync, constants, lchownSync, mkdirSync, readdirSync, type Dirent } from 'node:fs';
import { copyFile, open } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { EngineProblem } from './problem.ts';

export type Owner = { uid: number; gid: number };

/** Enough for the disk to merge its flushes; far below the smallest limit of open files (256). */
const AT_ONCE = 16;

/** Makes a 0700 folder that belongs to the given user (null: to us). */
export function makePrivate(folder: string, owner: Owner | null): void {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
  if (owner) giveTo(folder, owner);
}

export function giveTo(path: string, owner: Owner): void {
  try {
    lchownSync(path, owner.uid, owner.gid);
  } catch (error) {
    throw new EngineProblem(
      'no-private-user',
      `Files cannot be given to uid ${owner.uid} here (${(error as Error).message}): run Posthorn as an ordinary user, or set DATABASE_URL.`,
    );
  }
}

export function giveTree(folder: string, owner: Owner): void {
  for (const entry of contentOf(folder)) giveTo(pathOf(entry), owner);
  giveTo(folder, owner);
}

/** Copies files and folders. Folders and what lies in `bin` become 0755, other files 0644. */
export async function copyTree(from: string, to: string): Promise<void> {
  const entries = contentOf(from);
  const target = (entry: Dirent) => join(to, relative(from, pathOf(entry)));
  mkdirSync(to);
  for (const entry of entries) if (entry.isDirectory()) mkdirSync(target(entry));
  await inParallel(
    entries.filter((entry) => entry.isFile()),
    (entry) => copyFile(pathOf(entry), target(entry), constants.COPYFILE_FICLONE),
  );
  // chmod, because the umask of whoever started us must not close the copy to another user.
  chmodSync(to, 0o755);
  for (const entry of entries) {
    const runs = entry.isDirectory() || basename(entry.parentPath) === 'bin';
    chmodSync(target(entry), runs ? 0o755 : 0o644);
  }
}

/** Returns when every file and folder is on the disk, names included. */
export async function syncTree(folder: string): Promise<void> {
  await inParallel([...contentOf(folder).map(pathOf), folder, dirname(folder)], syncPath);
}

export async function syncPath(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}

/** All files and folders below, the outer before the inner. */
function contentOf(folder: string): Dirent[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() || entry.isDirectory());
}

function pathOf(entry: Dirent): string {
  return join(entry.parentPath, entry.name);
}

async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const walk = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, walk));
}
