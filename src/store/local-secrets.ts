/**
 * What a data directory keeps to itself, whatever database it uses: the secret key that everything
 * encrypted at rest depends on, and the name of this installation. Files of mode 0600 in
 * `<data>/secrets/`, made once.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

/** The secret key: the configured one, else the one of the data directory (made on first use). */
export function secretKeyOf(dataDir: string, configured: string | null): string {
  return configured ?? keep(dataDir, 'secret-key', () => randomBytes(32).toString('base64url'));
}

/**
 * Replaces the key of the data directory, in one step: a crash leaves the one or the other. Its service
 * takes it up within seconds (src/service/secret-keys.ts).
 */
export function replaceSecretKey(dataDir: string, secretKeys: readonly string[]): void {
  const file = join(dataDir, 'secrets', 'secret-key');
  const { uid, gid } = statSync(file);
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  const descriptor = openSync(fresh, 'wx', 0o600);
  try {
    // As root, for a service that has become another user.
    if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid);
    writeSync(descriptor, `${secretKeys.join(',')}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(fresh, file);
  const folder = openSync(join(dataDir, 'secrets'), 'r');
  fsyncSync(folder);
  closeSync(folder);
}

/** The key of the data directory as it is now; null: there is none, and none is made. */
export function readSecretKey(dataDir: string): string | null {
  try {
    return readFileSync(join(dataDir, 'secrets', 'secret-key'), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Names this installation in the nodes table: what its dead workers held is its own to free. */
export function instanceOf(dataDir: string): string {
  return keep(dataDir, 'instance', randomUUID);
}

function keep(dataDir: string, name: string, make: () => string): string {
  const file = join(dataDir, 'secrets', name);
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    chmodSync(file, 0o600);
    writeSync(descriptor, `${make()}\n`);
    // Losing it would lose every DKIM key: it is on disk before anything is encrypted with it.
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  return readFileSync(file, 'utf8').trim();
}
