/**
 * Folders (made private, given to another user, copied, made durable; no link in them is followed),
 * and the user whom the database's folders belong to.
 *
 * An ordinary user runs the database as itself. PostgreSQL refuses to run as root, so root gives it a
 * private numeric user that no account has: no `useradd`, and nothing shared with other services as
 * `nobody` is. Only `initdb` needs a user with a name and borrows one; cluster.ts keeps that user's
 * other processes out.
 */
import { createHash } from 'node:crypto';
import { chmodSync, constants, lchownSync, mkdirSync, readdirSync, type Dirent } from 'node:fs';
import { readFileSync } from 'node:fs';
import { copyFile, open } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { EngineProblem } from './problem.ts';

export type Owner = { uid: number; gid: number };

/** Enough for the disk to merge flushes; far below the smallest limit of open files (256). */
const AT_ONCE = 16;

/** Makes a 0700 folder that belongs to the given user (null: to this process's). */
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
  // chmod, because the umask of this process must not close the copy to another user.
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

/**
 * Ids that neither distributions nor systemd hand out (systemd.io/UIDS-GIDS: 60706-61183 unused),
 * and below 65536, because unprivileged containers map no others.
 */
const FIRST_PRIVATE_ID = 60_706;
const PRIVATE_ID_COUNT = 478;

/** macOS gives `nobody` the id -2, which spawn() refuses. */
const GREATEST_PLAIN_ID = 0x7fff_ffff;

type Account = { name: string; uid: number };

/** The id for the database of a folder: the same at every start, no account's and no group's. */
export function privateOwner(databaseDir: string, taken: ReadonlySet<number> = takenIds()): Owner {
  const seed = createHash('sha256').update(databaseDir).digest().readUInt32BE(0);
  for (let step = 0; step < PRIVATE_ID_COUNT; step++) {
    const id = FIRST_PRIVATE_ID + ((seed + step) % PRIVATE_ID_COUNT);
    if (!taken.has(id)) return { uid: id, gid: id };
  }
  throw new EngineProblem(
    'no-private-user',
    `All user ids from ${FIRST_PRIVATE_ID} on are taken: run Posthorn as an ordinary user, or set DATABASE_URL.`,
  );
}

/** Some unprivileged user that has a name, for initdb. */
export function namedUser(): number {
  const plain = accounts().filter(({ uid }) => uid > 0 && uid <= GREATEST_PLAIN_ID);
  const chosen =
    plain.find(({ name }) => name === 'nobody') ??
    plain.find(({ name }) => name === 'daemon') ??
    plain[0];
  if (chosen) return chosen.uid;
  throw new EngineProblem(
    'no-private-user',
    'There is no user besides root in /etc/passwd: run Posthorn as an ordinary user, or set DATABASE_URL.',
  );
}

/** `alice (uid 1000)`, or the number alone. */
export function describeUser(uid: number): string {
  const name = accounts().find((account) => account.uid === uid)?.name;
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function accounts(): Account[] {
  return idsIn('/etc/passwd');
}

function takenIds(): Set<number> {
  return new Set([...idsIn('/etc/passwd'), ...idsIn('/etc/group')].map(({ uid }) => uid));
}

/** Both files hold the name first and the number third. */
function idsIn(file: string): Account[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length > 2)
    .map(([name = '', , id]) => ({ name, uid: Number(id) }));
}
