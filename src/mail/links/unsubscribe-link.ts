/**
 * Links to hosted unsubscribe pages (RFC 8058): `https://mail.acme.com/u/<token>`, one per recipient. The token
 * contains the recipient and the sender, so a link works as long as a copy of the message exists, even after the
 * email was deleted here. It is encrypted and authenticated: nobody can forge it, and a log of links shows no
 * address.
 *
 * AES-256-GCM takes a keyed hash of the plaintext as nonce. So every attempt sends the same link, and the same
 * bytes.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { type Address, parseAddress, parseDomain } from '../address.ts';
import { UUID_BYTES, uuidBytes, uuidText } from './uuid.ts';

export type Unsubscriber = {
  /** Lower-case UUIDs. */
  projectId: string;
  environment: 'live' | 'test';
  emailId: string;
  address: Address;
  /** The domain of the author, from which the recipient unsubscribes. */
  fromDomain: string;
};

/**
 * Prefixes of the stored form of a hosted link. The second one means that mail to an unsubscribe address also
 * unsubscribes. A sender's own link is stored as an https URL.
 */
const HOSTED = 'hosted:';
const HOSTED_AND_BY_MAIL = 'hosted+mail:';
/** The purpose of the secret that encrypts tokens. */
export const UNSUBSCRIBE = 'unsubscribe links';

/** With this limit, the header fits on one line even with the longest token. */
export const PUBLIC_URL_MAX_LENGTH = 200;
const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ENVIRONMENTS = ['live', 'test'] as const;

export function formatHostedLink(publicUrl: string, { byMail }: { byMail: boolean }): string {
  return `${byMail ? HOSTED_AND_BY_MAIL : HOSTED}${publicUrl}/u/`;
}

/** Returns the hosted link before its token (`base`); null when the link is the sender's own. */
export function parseHostedLink(stored: string | null): { base: string; byMail: boolean } | null {
  for (const prefix of [HOSTED, HOSTED_AND_BY_MAIL]) {
    if (stored?.startsWith(prefix) !== true) continue;
    return { base: stored.slice(prefix.length), byMail: prefix === HOSTED_AND_BY_MAIL };
  }
  return null;
}

export class UnsubscribeTokens {
  readonly #secrets: readonly [Buffer, ...Buffer[]];

  /** @param secrets 32 bytes each, used for nothing else; the first makes tokens, all can read them */
  constructor(secrets: readonly Buffer[]) {
    const [first, ...others] = secrets;
    if (first === undefined) throw new Error('unsubscribe links need a secret');
    this.#secrets = [first, ...others];
  }

  /** Returns a token of about 140 characters in base64url. */
  make(unsubscriber: Unsubscriber): string {
    const plain = encode(unsubscriber);
    const [secret] = this.#secrets;
    const hash = createHmac('sha256', keyFor(secret, 'nonce')).update(plain).digest();
    const nonce = hash.subarray(0, NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', keyFor(secret, 'seal'), nonce);
    const sealed = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url');
  }

  /** Returns the recipient in a token; null when none of the secrets made it. */
  read(token: string): Unsubscriber | null {
    const bytes = Buffer.from(token, 'base64url');
    // Each token has only one accepted form.
    if (bytes.toString('base64url') !== token) return null;
    if (bytes.length <= NONCE_BYTES + TAG_BYTES) return null;
    for (const secret of this.#secrets) {
      const plain = decrypt(bytes, keyFor(secret, 'seal'));
      if (plain !== null) return decode(plain);
    }
    return null;
  }
}

function keyFor(secret: Buffer, purpose: 'seal' | 'nonce'): Buffer {
  return createHmac('sha256', secret).update(purpose).digest();
}

function decrypt(bytes: Buffer, key: Buffer): Buffer | null {
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce).setAuthTag(tag);
  try {
    const plain = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
    return Buffer.concat([plain, decipher.final()]);
  } catch {
    return null;
  }
}

function encode({ projectId, environment, emailId, address, fromDomain }: Unsubscriber): Buffer {
  const addressBytes = Buffer.from(address);
  return Buffer.concat([
    Buffer.from([VERSION, ENVIRONMENTS.indexOf(environment)]),
    uuidBytes(projectId),
    uuidBytes(emailId),
    Buffer.from([addressBytes.length]),
    addressBytes,
    Buffer.from(fromDomain),
  ]);
}

function decode(plain: Buffer): Unsubscriber | null {
  const [version, environmentIndex = -1] = plain;
  const environment = ENVIRONMENTS[environmentIndex];
  if (version !== VERSION || environment === undefined) return null;
  const ids = plain.subarray(2);
  const addressAt = 2 * UUID_BYTES + 1;
  const addressEnd = addressAt + (ids[addressAt - 1] ?? 0);
  const address = parseAddress(ids.toString('utf8', addressAt, addressEnd));
  const fromDomain = parseDomain(ids.toString('utf8', addressEnd));
  if (address === null || fromDomain === null) return null;
  return {
    projectId: uuidText(ids.subarray(0, UUID_BYTES)),
    environment,
    emailId: uuidText(ids.subarray(UUID_BYTES, 2 * UUID_BYTES)),
    address,
    fromDomain,
  };
}
