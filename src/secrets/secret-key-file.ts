/**
 * The files of `<data>/secrets/`: the secret key and the id of this installation. The key has mode 0600 and is created
 * once. key-check-store.ts checks before its use that it is the key of the database.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fchownSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseSecretKeys } from './secret-keys.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The secret key is missing, damaged or not the key of the database. The message is for the operator. */
export class SecretKeyProblem extends Error {
  override readonly name = 'SecretKeyProblem';
}

export function secretKeyFile(dataDir: string): string {
  return join(dataDir, 'secrets', 'secret-key');
}

/**
 * Creates the key of the data directory. Returns it, or the key that another process has created meanwhile.
 * @param secretKey default: a new one
 */
export function createSecretKeyFile(
  dataDir: string,
  secretKey = randomBytes(32).toString('base64url'),
): string {
  createFile(dataDir, 'secret-key', secretKey);
  return readSecretKey(dataDir)!;
}

/** Renames a key that is damaged or not the key of the database. Returns its new path; null when there is none. */
export function renameSecretKeyFile(dataDir: string, nowMs: number): string | null {
  const file = secretKeyFile(dataDir);
  const time = new Date(nowMs).toISOString().replaceAll(/[-:.]/g, '');
  const newPath = `${file}.before-${time}`;
  try {
    renameSync(file, newPath);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  syncFolder(join(dataDir, 'secrets'));
  return newPath;
}

export function removeSecretKeyFile(dataDir: string, secretKey: string): void {
  if (readSecretKey(dataDir) === secretKey) rmSync(secretKeyFile(dataDir));
}

/**
 * Replaces the key of the data directory atomically. A running service reads it within seconds (secret-key-watch.ts).
 */
export function replaceSecretKeyFile(dataDir: string, secretKeys: readonly string[]): void {
  const file = secretKeyFile(dataDir);
  const { uid, gid } = statSync(file);
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  const descriptor = openSync(fresh, 'wx', 0o600);
  try {
    // Root may call this for a service that runs as another user.
    if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid);
    writeSync(descriptor, `${secretKeys.join(',')}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(fresh, file);
  syncFolder(join(dataDir, 'secrets'));
}

export function requireSecretKey({
  dataDir,
  secretKey,
}: {
  dataDir: string;
  secretKey: string | null;
}): string {
  const current = secretKey ?? readSecretKey(dataDir);
  if (current !== null) return current;
  throw new SecretKeyProblem(
    `There is no secret key in ${dataDir}. Run this on the machine of the service, or set LETTERHAUS_SECRET_KEY.`,
  );
}

/**
 * Returns the key of the data directory; null when there is none. Creates none.
 * @throws SecretKeyProblem when the file cannot be read, or is empty
 */
export function readSecretKey(dataDir: string): string | null {
  const file = secretKeyFile(dataDir);
  const text = readText(file);
  if (text === null || parseSecretKeys(text).length > 0) return text;
  throw new SecretKeyProblem(
    `The file of the secret key, ${file}, is empty. Copy the file back from a backup or from the data directory of ` +
      'another node, or delete it if this database is new.',
  );
}

/**
 * Stores the key of a restored backup in a data directory that has none. The key is on disk before the rows that it
 * opens are visible.
 */
export function storeRestoredSecretKey(dataDir: string, secretKeys: string): void {
  if (readSecretKey(dataDir) === null) createFile(dataDir, 'secret-key', secretKeys);
}

/** Returns the id of this installation in the nodes table, by which it releases the claims of its dead workers. */
export function findOrCreateInstanceId(dataDir: string): string {
  const file = join(dataDir, 'secrets', 'instance');
  const current = readText(file);
  if (current !== null && UUID.test(current)) return current;
  // The file is damaged. Claims under the lost id expire like those of another machine.
  if (current !== null) rmSync(file);
  createFile(dataDir, 'instance', randomUUID());
  return readText(file)!;
}

/** Returns the id of this installation; null when it has none. Creates none. */
export function readInstanceId(dataDir: string): string | null {
  return readText(join(dataDir, 'secrets', 'instance'));
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new SecretKeyProblem(
      `${file} cannot be read (${code ?? message}); it has to be a file that the user of the service may read.`,
    );
  }
}

/** Creates a file completely or not at all, even if the process dies. An existing file does not change. */
function createFile(dataDir: string, name: string, text: string): void {
  const folder = join(dataDir, 'secrets');
  const fresh = join(folder, `${name}.${randomUUID()}`);
  const descriptor = openSync(fresh, 'wx', 0o600);
  try {
    chmodSync(fresh, 0o600);
    writeSync(descriptor, `${text}\n`);
    // Losing the key would lose every DKIM key, so it is on disk before it encrypts anything.
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  try {
    linkSync(fresh, join(folder, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
  syncFolder(folder);
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}
