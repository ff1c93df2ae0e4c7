/** The text of secret keys: one key, or several with commas between them during a rotation. */
import { hkdfSync } from 'node:crypto';

/** Octets that identify a key. */
export const SECRET_KEY_ID_BYTES = 4;

/** Splits `new,old`: the format of LETTERHAUS_SECRET_KEY and of the file in the data directory. */
export function parseSecretKeys(text: string): string[] {
  return text
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '');
}

/** Returns 8 hex digits that identify a key without revealing it. */
export function secretKeyId(secretKey: string): string {
  return deriveKey(secretKey, 'key id').toString('hex', 0, SECRET_KEY_ID_BYTES);
}

/** Derives a 32-byte key for one purpose. */
export function deriveKey(secretKey: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secretKey, 'letterhaus', purpose, 32));
}
