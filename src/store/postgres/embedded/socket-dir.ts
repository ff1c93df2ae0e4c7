/**
 * The folder of the database's unix socket, its only door: 0700, so that no other user can knock.
 *
 * The address of a unix socket has 108 bytes (104 on macOS), its end included. A data directory
 * with a longer path gets a short folder below /run (root) or the temporary folder; since other
 * users can write there too, one that is not exactly ours is refused, never used.
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { giveTo, makePrivate, type Owner } from './folders.ts';
import { EngineProblem } from './problem.ts';

/** Names the socket file only: nothing listens on TCP. */
export const PORT = 5432;
const SOCKET_NAME = `.s.PGSQL.${PORT}`;
const ADDRESS_BYTES_MAX = process.platform === 'darwin' ? 103 : 107;

/**
 * Makes the folder for the socket of a database and returns its path.
 * @param bases where a short folder may be made. Not /run/user/<uid>: it goes when that user logs out
 */
export function chooseSocketDir(
  databaseDir: string,
  owner: Owner | null,
  bases: readonly string[] = owner ? ['/run', '/tmp'] : [tmpdir(), '/tmp'],
): string {
  const near = join(databaseDir, 'socket');
  if (fits(near)) {
    makePrivate(near, owner);
    return near;
  }
  const hash = createHash('sha256').update(databaseDir).digest('hex').slice(0, 16);
  const tried = bases.map((base) => join(base, `posthorn-${hash}`)).filter(fits);
  const short = tried.find((folder) => makeShort(folder, owner));
  if (short !== undefined) return short;
  throw new EngineProblem(
    'socket-folder',
    `The path of ${databaseDir} is too long for a socket, and ${tried.join(' or ')} is not a folder that only Posthorn can use: remove it, or set POSTHORN_DATA_DIR to a shorter path.`,
  );
}

/** Takes a short folder away again; the one in the database's own folder stays. */
export function dropSocketDir(socketDir: string, databaseDir: string): void {
  if (dirname(socketDir) !== databaseDir) rmSync(socketDir, { recursive: true, force: true });
}

function fits(folder: string): boolean {
  return Buffer.byteLength(join(folder, SOCKET_NAME)) <= ADDRESS_BYTES_MAX;
}

/** Makes the folder, or accepts one that is ours already and closed to everybody else. */
function makeShort(folder: string, owner: Owner | null): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    if (!isPrivate(folder, owner)) return false;
  }
  if (owner) giveTo(folder, owner);
  return true;
}

/** lstat, because a link of that name would lead to a folder of somebody else's choice. */
function isPrivate(folder: string, owner: Owner | null): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found?.isDirectory() || (found.mode & 0o077) !== 0) return false;
  return found.uid === process.geteuid?.() || found.uid === owner?.uid;
}
