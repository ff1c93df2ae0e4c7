/**
 * Where everything lives, and with which owner and mode.
 *
 *     <data>/                 0711 as root (the database's user must pass), else 0700
 *       lock running.json     who holds the directory (lock.ts)
 *       secrets/              0700, ours
 *       pg/                   0700, the database's user: the cluster
 *       socket/               0700, the database's user
 *       engine-<version>/     0755, ours: binaries its user can run but not change
 *       postgresql.conf ...   ours: never written inside pg/, where its user could plant links
 *       postgres.log
 *
 * As root below a folder closed to others, everything from pg/ on lies in
 * /var/lib/posthorn/db-<hash of the path> instead.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describeUser, privateOwner } from './accounts.ts';
import { makePrivate, type Owner } from './folders.ts';
import { EngineProblem } from './problem.ts';
import { chooseSocketDir } from './socket-dir.ts';

export const CLOSED_PARENT_HOME = '/var/lib/posthorn';

export type Layout = {
  dataDir: string;
  /** The same as dataDir, except for root below a closed folder. */
  databaseDir: string;
  /** Whom the database runs as; null: as the user who started us. */
  owner: Owner | null;
  pgDir: string;
  socketDir: string;
  logFile: string;
};

/**
 * Makes the data directory if need be and returns its real path. The mode of a folder that was
 * there before and holds other things is left alone.
 */
export function prepareDataDir(folder: string): string {
  try {
    makeFolder(folder);
    const dataDir = realpathSync(folder);
    requireOwnFolder(dataDir);
    const content = readdirSync(dataDir);
    if (content.length === 0 || content.includes('lock') || content.includes('secrets')) {
      chmodSync(dataDir, process.geteuid?.() === 0 ? 0o711 : 0o700);
    }
    makePrivate(join(dataDir, 'secrets'), null);
    return dataDir;
  } catch (error) {
    throw error instanceof EngineProblem ? error : unusable(folder, error as NodeJS.ErrnoException);
  }
}

/** Not with `recursive`: where mkdir says ENOENT whatever is there (/proc), Node's goes on for ever. */
function makeFolder(folder: string): void {
  if (existsSync(folder) && statSync(folder).isDirectory()) return;
  if (!existsSync(dirname(folder))) makeFolder(dirname(folder));
  mkdirSync(folder);
}

/** Decides where the database lives and makes the folders around it. Only under the lock. */
export function prepareLayout(
  dataDir: string,
  closedParentHome: string,
  log: (line: string) => void,
): Layout {
  const asRoot = process.geteuid?.() === 0;
  const databaseDir = asRoot ? openDatabaseDir(dataDir, closedParentHome) : dataDir;
  if (databaseDir !== dataDir) {
    const closed = closedFolder(dataDir) ?? dataDir;
    log(`${closed} is closed to the database's own user: the database lives in ${databaseDir}.`);
  }
  requirePlainPath(databaseDir);
  const pgDir = join(databaseDir, 'pg');
  if (!asRoot && existsSync(pgDir)) requireOwnFolder(pgDir);
  const owner = asRoot ? ownerOf(pgDir, databaseDir) : null;
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
    `The data directory ${folder} belongs to ${describeUser(uid)}: run Posthorn as that user, or set POSTHORN_DATA_DIR to another folder.`,
  );
}

function unusable(folder: string, { code, message }: NodeJS.ErrnoException): EngineProblem {
  let nearest = folder;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  const { uid } = statSync(nearest);
  const cannot = `The data directory ${folder} cannot be used`;
  if ((code === 'EACCES' || code === 'EPERM') && uid !== process.geteuid?.()) {
    const owner = `because ${nearest} belongs to ${describeUser(uid)}`;
    return new EngineProblem(
      'wrong-user',
      `${cannot} by ${describeUser(process.geteuid?.() ?? -1)}, ${owner}: run Posthorn as that user, or set POSTHORN_DATA_DIR to another folder.`,
    );
  }
  const why = statSync(nearest).isDirectory() ? `(${message})` : `because ${nearest} is no folder`;
  return new EngineProblem(
    'unusable-path',
    `${cannot} ${why}: set POSTHORN_DATA_DIR to another folder.`,
  );
}

/** As root: in the data directory if the database's user can get there, else in /var/lib. */
function openDatabaseDir(dataDir: string, closedParentHome: string): string {
  const elsewhere = databaseElsewhere(dataDir, closedParentHome);
  const settled = [dataDir, elsewhere].find((folder) => existsSync(join(folder, 'pg')));
  const chosen = settled ?? (closedFolder(dataDir) === null ? dataDir : elsewhere);
  if (chosen === elsewhere) {
    mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
    requireOwnFolder(closedParentHome);
    for (const made of [closedParentHome, elsewhere]) chmodSync(made, statSync(made).mode | 0o011);
  }
  const closed = closedFolder(chosen);
  if (closed === null) return chosen;
  throw new EngineProblem(
    'closed-folder',
    `The database in ${chosen} runs as a user of its own, whom ${closed} does not let pass: run \`chmod o+x ${closed}\`, or set POSTHORN_DATA_DIR to another folder.`,
  );
}

/** @param dataDir its real path */
function databaseElsewhere(dataDir: string, closedParentHome: string): string {
  const hash = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  return join(closedParentHome, `db-${hash}`);
}

/** Deletes a data directory that nothing runs in, and its database wherever that is. */
export function removeDataDir(folder: string, closedParentHome = CLOSED_PARENT_HOME): void {
  const dataDir = realpathSync(folder);
  for (const made of [databaseElsewhere(dataDir, closedParentHome), dataDir]) {
    rmSync(made, { recursive: true, force: true });
  }
}

/** The first folder on the way down that a user without any rights of its own cannot enter. */
function closedFolder(folder: string): string | null {
  const parent = dirname(folder);
  const above = parent === folder ? null : closedFolder(parent);
  return above ?? ((statSync(folder).mode & 0o001) === 0 ? folder : null);
}

/** initdb puts its own path into a shell command, between double quotes. */
function requirePlainPath(databaseDir: string): void {
  if (!/["$`\\\n]/.test(databaseDir)) return;
  throw new EngineProblem(
    'unusable-path',
    `The path ${databaseDir} has one of the signs " $ \` \\ in it, which PostgreSQL's initdb cannot take: set POSTHORN_DATA_DIR to another folder.`,
  );
}

function ownerOf(pgDir: string, databaseDir: string): Owner {
  if (!existsSync(pgDir)) return privateOwner(databaseDir);
  const { uid, gid } = statSync(pgDir);
  if (uid !== 0) return { uid, gid };
  throw new EngineProblem(
    'wrong-user',
    `The database in ${pgDir} belongs to root, as whom PostgreSQL refuses to run: give it back to the user it belonged to with \`chown -R\`.`,
  );
}
