/**
 * Folders (created private, given to another owner, copied, synced, without following links), and the user that owns
 * the database's folders.
 *
 * An ordinary user runs the database as itself. PostgreSQL refuses to run as root, so root runs it as a private numeric
 * user without an account. Such a user needs no `useradd` and, unlike `nobody`, shares nothing with other services.
 * Only `initdb` needs a named user, and borrows one. cluster.ts keeps other processes of that user out.
 */
import { createHash } from 'node:crypto';
import { chmodSync, constants, lchownSync, mkdirSync, readdirSync, type Dirent } from 'node:fs';
import { readFileSync } from 'node:fs';
import { copyFile, open } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { EngineProblem } from './problem.ts';

export type Owner = { uid: number; gid: number };

/**
 * Parallel file operations: enough for the disk to merge flushes, well below the smallest limit of open files (256).
 */
const PARALLEL_FILES = 16;

/** Creates a 0700 folder that belongs to the given user, or to the user of this process when that is null. */
export function createPrivateFolder(folder: string, owner: Owner | null): void {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
  if (owner) changeOwner(folder, owner);
}

export function changeOwner(path: string, owner: Owner): void {
  try {
    lchownSync(path, owner.uid, owner.gid);
  } catch (error) {
    throw new EngineProblem(
      'no-private-user',
      `Files cannot be given to uid ${owner.uid} here (${(error as Error).message}): run Letterhaus as an ordinary user, or set DATABASE_URL.`,
    );
  }
}

export function changeOwnerOfTree(folder: string, owner: Owner): void {
  for (const entry of listTree(folder)) changeOwner(pathOf(entry), owner);
  changeOwner(folder, owner);
}

/** Copies files and folders. Folders and files in `bin` become 0755, other files 0644. */
export async function copyTree(from: string, to: string): Promise<void> {
  const entries = listTree(from);
  const target = (entry: Dirent) => join(to, relative(from, pathOf(entry)));
  mkdirSync(to);
  for (const entry of entries) if (entry.isDirectory()) mkdirSync(target(entry));
  await inParallel(
    entries.filter((entry) => entry.isFile()),
    (entry) => copyFile(pathOf(entry), target(entry), constants.COPYFILE_FICLONE),
  );
  // chmod, because the umask of this process could exclude other users from the copy.
  chmodSync(to, 0o755);
  for (const entry of entries) {
    const isExecutable = entry.isDirectory() || basename(entry.parentPath) === 'bin';
    chmodSync(target(entry), isExecutable ? 0o755 : 0o644);
  }
}

/** Resolves when every file and folder is on disk, including their names. */
export async function syncTree(folder: string): Promise<void> {
  await inParallel([...listTree(folder).map(pathOf), folder, dirname(folder)], syncPath);
}

export async function syncPath(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}

function listTree(folder: string): Dirent[] {
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
  const takeFromQueue = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: PARALLEL_FILES }, takeFromQueue));
}

/**
 * Ids that neither distributions nor systemd assign (systemd.io/UIDS-GIDS: 60706-61183 unused). They are below 65536,
 * because unprivileged containers map no others.
 */
const FIRST_PRIVATE_ID = 60_706;
const PRIVATE_ID_COUNT = 478;

/** Greatest usable id: on macOS `nobody` has the id -2, which spawn() refuses. */
const USER_ID_MAX = 0x7fff_ffff;

type Account = { name: string; uid: number };

/** Returns the user id for the database of a folder: the same at every start, and not in use. */
export function choosePrivateOwner(
  databaseDir: string,
  usedIds: ReadonlySet<number> = readUsedIds(),
): Owner {
  const seed = createHash('sha256').update(databaseDir).digest().readUInt32BE(0);
  for (let step = 0; step < PRIVATE_ID_COUNT; step++) {
    const id = FIRST_PRIVATE_ID + ((seed + step) % PRIVATE_ID_COUNT);
    if (!usedIds.has(id)) return { uid: id, gid: id };
  }
  throw new EngineProblem(
    'no-private-user',
    `All user ids from ${FIRST_PRIVATE_ID} on are taken: run Letterhaus as an ordinary user, or set DATABASE_URL.`,
  );
}

/** Returns the id of any unprivileged user with a name, for initdb. */
export function findNamedUserId(): number {
  const unprivileged = accounts().filter(({ uid }) => uid > 0 && uid <= USER_ID_MAX);
  const chosen =
    unprivileged.find(({ name }) => name === 'nobody') ??
    unprivileged.find(({ name }) => name === 'daemon') ??
    unprivileged[0];
  if (chosen) return chosen.uid;
  throw new EngineProblem(
    'no-private-user',
    'There is no user besides root in /etc/passwd: run Letterhaus as an ordinary user, or set DATABASE_URL.',
  );
}

export function describeUser(uid: number): string {
  const name = accounts().find((account) => account.uid === uid)?.name;
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function accounts(): Account[] {
  return readAccounts('/etc/passwd');
}

function readUsedIds(): Set<number> {
  return new Set(
    [...readAccounts('/etc/passwd'), ...readAccounts('/etc/group')].map(({ uid }) => uid),
  );
}

/** Reads /etc/passwd or /etc/group: in both, the first field is the name and the third the id. */
function readAccounts(file: string): Account[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length > 2)
    .map(([name = '', , id]) => ({ name, uid: Number(id) }));
}
