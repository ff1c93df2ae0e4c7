/**
 * Encrypts the secrets in the database: DKIM keys, webhook secrets, second factors, keys of
 * certificates. A sealed value is AES-256-GCM with
 * the row's id as AAD, so a value that is moved to another row cannot be opened. It consists of a version, 4 octets
 * that identify the key, nonce, tag and text. Values of older versions begin with the nonce.
 *
 * During a rotation there are several keys: the first seals and signs, all of them open and verify.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { deriveKey, parseSecretKeys, SECRET_KEY_ID_BYTES, secretKeyId } from './secret-keys.ts';

const VERSION = 1;
const HEAD_BYTES = 1 + SECRET_KEY_ID_BYTES;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A sealed value is damaged, or was sealed with a key that this node does not have. */
export class SecretUnopenable extends Error {
  override readonly name = 'SecretUnopenable';
}

/** `derived` holds the keys that were derived before, by purpose. */
type Key = { id: string; master: string; sealing: Buffer; derived: Map<string, Buffer> };

export class SecretBox {
  #keys: [Key, ...Key[]];

  /** @param secretKeys one key of at least 32 characters, or several with commas between them */
  constructor(secretKeys: string) {
    this.#keys = createKeys(secretKeys);
  }

  replaceKeys(secretKeys: string): void {
    this.#keys = createKeys(secretKeys);
  }

  /** Ids of the keys. The first one seals. */
  get keyIds(): string[] {
    return this.#keys.map(({ id }) => id);
  }

  /** Returns a 32-byte key for one purpose, derived from the first secret key. */
  derive(purpose: string): Buffer {
    return cachedKeyFor(this.#keys[0], purpose);
  }

  /** Derives a key for one purpose from each secret key, to verify signatures of any of them. */
  deriveAll(purpose: string): Buffer[] {
    return this.#keys.map((key) => cachedKeyFor(key, purpose));
  }

  /** The beginning of values that the first key has sealed. */
  get head(): Buffer {
    return headOf(this.#keys[0]);
  }

  seal(plain: string, rowId: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const [{ sealing }] = this.#keys;
    const cipher = createCipheriv('aes-256-gcm', sealing, nonce).setAAD(Buffer.from(rowId));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
    return Buffer.concat([this.head, nonce, cipher.getAuthTag(), sealed]);
  }

  /**
   * Decrypts a value.
   * @throws SecretUnopenable when none of the keys has sealed it, or the value belongs to another row
   */
  open(sealed: Buffer, rowId: string): string {
    const head = sealed.subarray(0, HEAD_BYTES);
    const sealingKey = this.#keys.find((key) => headOf(key).equals(head));
    const opened = sealingKey && openWith(sealingKey, sealed.subarray(HEAD_BYTES), rowId);
    if (opened != null) return opened;
    // A value of an older version does not name its key, and its nonce may begin with any bytes.
    for (const key of this.#keys) {
      const text = openWith(key, sealed, rowId);
      if (text !== null) return text;
    }
    throw new SecretUnopenable(
      'no secret key decrypts a stored secret: it is damaged, or another key has sealed it',
    );
  }

  opens(sealed: Buffer, rowId: string): boolean {
    try {
      return this.open(sealed, rowId) !== '';
    } catch {
      return false;
    }
  }
}

/** Returns the id of the key that sealed a value; null for a version that does not name it. */
export function sealingKeyIdOf(sealed: Buffer): string | null {
  if (sealed[0] !== VERSION || sealed.length < HEAD_BYTES) return null;
  return sealed.toString('hex', 1, HEAD_BYTES);
}

function createKeys(text: string): [Key, ...Key[]] {
  const [first, ...others] = parseSecretKeys(text).map(createKey);
  if (first === undefined) throw new Error('there is no secret key');
  return [first, ...others];
}

function createKey(master: string): Key {
  const sealing = deriveKey(master, 'encryption at rest');
  return { id: secretKeyId(master), master, sealing, derived: new Map() };
}

function headOf({ id }: Key): Buffer {
  return Buffer.concat([Buffer.from([VERSION]), Buffer.from(id, 'hex')]);
}

function cachedKeyFor({ master, derived }: Key, purpose: string): Buffer {
  const known = derived.get(purpose);
  if (known !== undefined) return known;
  const key = deriveKey(master, purpose);
  derived.set(purpose, key);
  return key;
}

function openWith({ sealing }: Key, sealed: Buffer, rowId: string): string | null {
  const tagEnd = NONCE_BYTES + TAG_BYTES;
  if (sealed.length < tagEnd) return null;
  const decipher = createDecipheriv('aes-256-gcm', sealing, sealed.subarray(0, NONCE_BYTES))
    .setAAD(Buffer.from(rowId))
    .setAuthTag(sealed.subarray(NONCE_BYTES, tagEnd));
  try {
    const plain = decipher.update(sealed.subarray(tagEnd));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  } catch {
    return null;
  }
}
