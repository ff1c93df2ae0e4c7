/**
 * The files and folders of the data directory, with owner and mode.
 *
 *     <data>/                 0711 as root (the database's user must pass), else 0700; a folder in use keeps its mode
 *       lock running.json     the holder of the directory (lock.ts)
 *       openssl.json          how workers compute signatures (service/machine/openssl-tuning.ts)
 *       secrets/              0700, ours
 *       pg/                   0700, the database's user: the cluster
 *       socket/               0700, the database's user
 *       admin/                0700, ours: the socket of the command line (service/admin-socket.ts)
 *       engine-<version>/     0755, ours: binaries that its user can run but not change
 *       postgresql.conf ...   ours: outside of pg/, where its user could create links
 *       postgres.log
 *
 * The server listens on the socket only. The address of a unix socket has at most 108 bytes (104 on macOS) including
 * its terminator. So a data directory with a longer path gets a short socket folder below /run (root) or the temporary
 * folder. Other users can write there too, so a folder of that name is refused unless it belongs to Letterhaus alone.
 * The socket of the command line then gets a folder with a random name, which running.json records.
 *
 * As root below a folder that is closed to others, pg/ and all entries after it are in /var/lib/letterhaus/db-<hash of
 * the path> instead.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  describeUser,
  changeOwner,
  createPrivateFolder,
  type Owner,
  choosePrivateOwner,
} from './folders.ts';
import { EngineProblem } from './problem.ts';

export const CLOSED_PARENT_HOME = '/var/lib/letterhaus';

export type Layout = {
  dataDir: string;
  databaseDir: string;
  owner: Owner | null;
  pgDir: string;
  socketDir: string;
  logFile: string;
};

/**
 * Creates the data directory if it is missing and returns its real path. A new or empty folder becomes private. Any
 * other folder keeps its mode, except that root lets the database's user pass.
 * @param warn gets a sentence when the folder is open to other users
 */
export function prepareDataDir(folder: string, warn: (line: string) => void = () => {}): string {
  try {
    createFolder(folder, 0o700);
    const dataDir = realpathSync(folder);
    requireOwnFolder(dataDir);
    setDataDirMode(dataDir, warn);
    createPrivateFolder(join(dataDir, 'secrets'), null);
    return dataDir;
  } catch (error) {
    throw error instanceof EngineProblem
      ? error
      : unusableFolderProblem(folder, error as NodeJS.ErrnoException);
  }
}

function setDataDirMode(dataDir: string, warn: (line: string) => void): void {
  const asRoot = process.geteuid?.() === 0;
  const content = readdirSync(dataDir);
  const mode = statSync(dataDir).mode & 0o7777;
  const isInUse = content.includes('lock') || content.includes('secrets');
  if (content.length === 0) chmodSync(dataDir, asRoot ? 0o711 : 0o700);
  else if (asRoot && isInUse && (mode & 0o001) === 0) chmodSync(dataDir, mode | 0o011);
  if (content.length === 0 || (mode & (asRoot ? 0o066 : 0o077)) === 0) return;
  warn(
    `The data directory ${dataDir} is open to other users of this machine: run \`chmod ${asRoot ? 'go=x' : 'go='} ${dataDir}\`, unless that is intended.`,
  );
}

/**
 * Creates a folder and its parents. Node's `recursive` would repeat mkdir for ever where it always fails with ENOENT
 * (/proc).
 */
function createFolder(folder: string, mode?: number): void {
  if (existsSync(folder) && statSync(folder).isDirectory()) return;
  if (!existsSync(dirname(folder))) createFolder(dirname(folder));
  mkdirSync(folder, { mode });
}

export function prepareLayout(
  dataDir: string,
  closedParentHome: string,
  log: (line: string) => void,
): Layout {
  const asRoot = process.geteuid?.() === 0;
  const databaseDir = asRoot ? chooseDatabaseDir(dataDir, closedParentHome) : dataDir;
  if (databaseDir !== dataDir) {
    const closed = findClosedFolder(dataDir) ?? dataDir;
    log(`${closed} is closed to the database's own user: the database lives in ${databaseDir}.`);
  }
  requirePlainPath(databaseDir);
  const pgDir = join(databaseDir, 'pg');
  if (!asRoot && existsSync(pgDir)) requireOwnFolder(pgDir);
  const owner = asRoot ? clusterOwner(pgDir, databaseDir) : null;
  const socketDir = chooseSocketDir(databaseDir, owner);
  return {
    dataDir,
    databaseDir,
    owner,
    pgDir,
    socketDir,
    logFile: join(databaseDir, 'postgres.log'),
  };
}

function requireOwnFolder(folder: string): void {
  const { uid } = statSync(folder);
  if (uid === process.geteuid?.()) return;
  throw new EngineProblem(
    'wrong-user',
    `The data directory ${folder} belongs to ${describeUser(uid)}: run Letterhaus as that user, or set LETTERHAUS_DATA_DIR to another folder.`,
  );
}

function unusableFolderProblem(
  folder: string,
  { code, message }: NodeJS.ErrnoException,
): EngineProblem {
  let nearest = folder;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  const { uid } = statSync(nearest);
  const cannot = `The data directory ${folder} cannot be used`;
  if ((code === 'EACCES' || code === 'EPERM') && uid !== process.geteuid?.()) {
    const owner = `because ${nearest} belongs to ${describeUser(uid)}`;
    return new EngineProblem(
      'wrong-user',
      `${cannot} by ${describeUser(process.geteuid?.() ?? -1)}, ${owner}: run Letterhaus as that user, or set LETTERHAUS_DATA_DIR to another folder.`,
    );
  }
  const why = statSync(nearest).isDirectory() ? `(${message})` : `because ${nearest} is no folder`;
  return new EngineProblem(
    'unusable-path',
    `${cannot} ${why}: set LETTERHAUS_DATA_DIR to another folder.`,
  );
}

/** As root: returns the data directory if the database's user can enter it, else a folder in /var/lib. */
function chooseDatabaseDir(dataDir: string, closedParentHome: string): string {
  const elsewhere = databaseDirElsewhere(dataDir, closedParentHome);
  const existing = [dataDir, elsewhere].find((folder) => existsSync(join(folder, 'pg')));
  const chosen = existing ?? (findClosedFolder(dataDir) === null ? dataDir : elsewhere);
  if (chosen === elsewhere) {
    mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
    requireOwnFolder(closedParentHome);
    for (const folder of [closedParentHome, elsewhere])
      chmodSync(folder, statSync(folder).mode | 0o011);
  }
  const closed = findClosedFolder(chosen);
  if (closed === null) return chosen;
  throw new EngineProblem(
    'closed-folder',
    `The database in ${chosen} runs as a user of its own, which cannot enter ${closed}: run \`chmod o+x ${closed}\`, or set LETTERHAUS_DATA_DIR to another folder.`,
  );
}

/** @param dataDir its real path */
function databaseDirElsewhere(dataDir: string, closedParentHome: string): string {
  const hash = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  return join(closedParentHome, `db-${hash}`);
}

/** Deletes a data directory that no process uses, and its database wherever that is. */
export function removeDataDir(folder: string, closedParentHome = CLOSED_PARENT_HOME): void {
  const dataDir = realpathSync(folder);
  for (const directory of [databaseDirElsewhere(dataDir, closedParentHome), dataDir]) {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Returns the first folder of the path that a user without rights cannot enter, or null when there is none. */
function findClosedFolder(folder: string): string | null {
  const parent = dirname(folder);
  const above = parent === folder ? null : findClosedFolder(parent);
  return above ?? ((statSync(folder).mode & 0o001) === 0 ? folder : null);
}

/** Refuses paths that initdb would break: it passes its own path to a shell in double quotes. */
function requirePlainPath(databaseDir: string): void {
  if (!/["$`\\\n]/.test(databaseDir)) return;
  throw new EngineProblem(
    'unusable-path',
    `The path ${databaseDir} contains one of the characters " $ \` \\, which PostgreSQL's initdb cannot take. Set LETTERHAUS_DATA_DIR to another folder.`,
  );
}

function clusterOwner(pgDir: string, databaseDir: string): Owner {
  if (!existsSync(pgDir)) return choosePrivateOwner(databaseDir);
  const { uid, gid } = statSync(pgDir);
  if (uid !== 0) return { uid, gid };
  throw new EngineProblem(
    'wrong-user',
    `The database in ${pgDir} belongs to root, and PostgreSQL refuses to run as root: give it back to its user with \`chown -R\`.`,
  );
}

/** Only a part of the socket's file name: the server does not listen on TCP. */
export const SOCKET_PORT = 5432;
const ADDRESS_BYTES_MAX = process.platform === 'darwin' ? 103 : 107;

/**
 * `folder`: name inside the directory; `short`: prefix of a short folder elsewhere; `isPublished`: clients read the
 * path in running.json, so the folder may have any name.
 */
type SocketOptions = { folder: string; shortPrefix: string; file: string; isPublished: boolean };
const DATABASE_SOCKET: SocketOptions = {
  folder: 'socket',
  shortPrefix: 'letterhaus',
  file: `.s.PGSQL.${SOCKET_PORT}`,
  isPublished: false,
};
export const ADMIN_SOCKET: SocketOptions = {
  folder: 'admin',
  shortPrefix: 'letterhaus-admin',
  file: 'letterhaus.sock',
  isPublished: true,
};

/**
 * Creates the folder for a socket and returns its path.
 * @param bases parents of a short folder. Not /run/user/<uid>, which is removed when that user logs out. Root does not
 *   use the temporary folder of its environment, which may belong to another user.
 */
export function chooseSocketDir(
  directory: string,
  owner: Owner | null,
  bases: readonly string[] = process.geteuid?.() === 0 ? ['/run', '/tmp'] : [tmpdir(), '/tmp'],
  { folder, shortPrefix: prefix, file, isPublished }: SocketOptions = DATABASE_SOCKET,
): string {
  const fits = (dir: string) => Buffer.byteLength(join(dir, file)) <= ADDRESS_BYTES_MAX;
  const preferred = join(directory, folder);
  if (fits(preferred)) {
    createPrivateFolder(preferred, owner);
    return preferred;
  }
  const hash = createHash('sha256').update(directory).digest('hex').slice(0, 16);
  const tried = bases.map((base) => join(base, `${prefix}-${hash}`)).filter(fits);
  const safe = tried.filter((candidate) => isSafeParent(dirname(candidate)));
  const short = safe.find((candidate) => createShortDir(candidate, owner));
  if (short !== undefined) return short;
  if (isPublished && safe.length > 0) return mkdtempSync(`${safe.at(-1)}-`);
  throw new EngineProblem(
    'socket-folder',
    `The path of ${directory} is too long for a socket, and ${tried.join(' or ')} is not a folder that only Letterhaus can use: remove it, or set LETTERHAUS_DATA_DIR to a shorter path.`,
  );
}

/** Removes a short folder. A socket folder inside the directory stays. */
export function removeShortSocketDir(socketDir: string, directory: string): void {
  if (dirname(socketDir) !== directory) rmSync(socketDir, { recursive: true, force: true });
}

/** Returns whether no other user can rename or remove a folder that is created in this one. */
function isSafeParent(base: string): boolean {
  const found = statSync(base, { throwIfNoEntry: false });
  if (!found?.isDirectory() || ![0, process.geteuid?.()].includes(found.uid)) return false;
  const [isOpen, isSticky] = [(found.mode & 0o022) !== 0, (found.mode & 0o1000) !== 0];
  return !isOpen || isSticky;
}

/** Creates the folder, or accepts one of mode 0700 that belongs to this process or its database. */
function createShortDir(folder: string, owner: Owner | null): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    if (!isPrivate(folder, owner)) return false;
  }
  if (owner) changeOwner(folder, owner);
  return true;
}

/** Uses lstat, because a link of that name could point to another user's folder. */
function isPrivate(folder: string, owner: Owner | null): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found?.isDirectory() || (found.mode & 0o077) !== 0) return false;
  return found.uid === process.geteuid?.() || found.uid === owner?.uid;
}
