/**
 * What is encrypted at rest (DKIM keys, webhook secrets) and what is derived from the one secret
 * key. AES-256-GCM; the id of the row is the AAD, so that a value moved to another row does not open.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export class SecretBox {
  readonly #key: Buffer;
  readonly #master: string;

  /** @param secretKey the text of POSTHORN_SECRET_KEY, at least 32 characters */
  constructor(secretKey: string) {
    this.#master = secretKey;
    this.#key = this.derive('encryption at rest');
  }

  /** A key of 32 bytes for one purpose; the same for the same secret key. */
  derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#master, 'posthorn', purpose, 32));
  }

  seal(plain: string, rowId: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(rowId));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
  }

  /** @throws when the key is another one, or the value belongs to another row */
  open(sealed: Buffer, rowId: string): string {
    const nonce = sealed.subarray(0, NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce)
      .setAAD(Buffer.from(rowId))
      .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    const plain = decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  }
}
