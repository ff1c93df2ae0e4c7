/**
 * What is encrypted at rest (DKIM keys, webhook secrets) and what is derived from the secret key.
 * AES-256-GCM; the id of the row is the AAD, so that a value moved to another row does not open.
 * A sealed value names its key: a version, 4 octets that the key alone gives, then nonce, tag and
 * text. Values of before that begin with the nonce.
 *
 * While a key is being replaced there are several (store/secret-keys.ts): the first seals and signs,
 * all of them open and verify. The keys of a running service change in place.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const VERSION = 1;
const ID_BYTES = 4;
const HEAD_BYTES = 1 + ID_BYTES;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

type Key = { id: string; master: string; sealing: Buffer; derived: Map<string, Buffer> };

/** `new,old`: what POSTHORN_SECRET_KEY and the file in the data directory may hold. */
export function secretKeysOf(text: string): string[] {
  return text
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '');
}

/** Names a key without telling it: 8 hex digits. */
export function secretKeyId(secretKey: string): string {
  return derivedFrom(secretKey, 'key id').toString('hex', 0, ID_BYTES);
}

export class SecretBox {
  #keys: [Key, ...Key[]];

  /** @param secretKeys one of at least 32 characters, or several with commas between them */
  constructor(secretKeys: string) {
    this.#keys = readKeys(secretKeys);
  }

  /** Works with these keys from now on. */
  use(secretKeys: string): void {
    this.#keys = readKeys(secretKeys);
  }

  /** The first is the one that seals. */
  get keyIds(): string[] {
    return this.#keys.map(({ id }) => id);
  }

  /** A key of 32 bytes for one purpose; the same for the same secret key. */
  derive(purpose: string): Buffer {
    return derivedOnce(this.#keys[0], purpose);
  }

  /** The same of every key, to verify what was signed with one of them. */
  deriveAll(purpose: string): Buffer[] {
    return this.#keys.map((key) => derivedOnce(key, purpose));
  }

  /** What everything begins with that is sealed now. */
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

  /** @throws when none of the keys has sealed it, or the value belongs to another row */
  open(sealed: Buffer, rowId: string): string {
    const head = sealed.subarray(0, HEAD_BYTES);
    const named = this.#keys.find((key) => headOf(key).equals(head));
    const opened = named && openWith(named, sealed.subarray(HEAD_BYTES), rowId);
    if (opened != null) return opened;
    // Of before keys were named; its nonce may begin with anything.
    for (const key of this.#keys) {
      const text = openWith(key, sealed, rowId);
      if (text !== null) return text;
    }
    throw new Error('no secret key opens what is stored: POSTHORN_SECRET_KEY is another one');
  }
}

function readKeys(text: string): [Key, ...Key[]] {
  const [first, ...others] = secretKeysOf(text).map(newKey);
  if (first === undefined) throw new Error('there is no secret key');
  return [first, ...others];
}

function newKey(master: string): Key {
  const sealing = derivedFrom(master, 'encryption at rest');
  return { id: secretKeyId(master), master, sealing, derived: new Map() };
}

function headOf({ id }: Key): Buffer {
  return Buffer.concat([Buffer.from([VERSION]), Buffer.from(id, 'hex')]);
}

function derivedOnce({ master, derived }: Key, purpose: string): Buffer {
  const known = derived.get(purpose);
  if (known !== undefined) return known;
  const made = derivedFrom(master, purpose);
  derived.set(purpose, made);
  return made;
}

function derivedFrom(master: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, 'posthorn', purpose, 32));
}

/** null: it is not of this key. */
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
