/**
 * The key of the installation that signs case files (Ed25519). The first use makes it.
 *
 * Guarantee: all nodes sign with the same key. If the secret key does not open it, because the row is damaged or
 * another secret key has sealed it, it is retired and a new one signs. Files of retired keys can still be verified.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { Logger } from 'pino';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { type SecretBox, SecretUnopenable } from '../../secrets/secret-box.ts';
import {
  addReceiptKey,
  listReceiptKeys,
  retireReceiptKey,
  type StoredReceiptKey,
} from './receipt-key-store.ts';

/** A new key may be added by another node at the same time, and an unusable one be retired first. */
const READS_MAX = 3;

export type ReceiptKey = { publicKey: string; privateKey: KeyObject };

type KeyContext = {
  db: Queryable;
  secrets: Pick<SecretBox, 'seal' | 'open'>;
  log: Pick<Logger, 'warn'>;
};

/** Returns the current key, and makes it when there is none that the secret key opens. */
export async function currentReceiptKey(context: KeyContext): Promise<ReceiptKey> {
  return (await readKeys(context)).current;
}

/** Returns the current key and all keys, the current one first. */
export async function readKeys(
  context: KeyContext,
): Promise<{ current: ReceiptKey; all: StoredReceiptKey[] }> {
  for (let reads = 0; reads < READS_MAX; reads += 1) {
    const all = await listReceiptKeys(context.db);
    const [first] = all;
    if (first?.retiredAt === null) {
      const current = openKey(first, context);
      if (current !== null) return { current, all };
      await retireReceiptKey(context.db, first.id);
    }
    await addReceiptKey(context.db, newKey(context.secrets));
  }
  throw new Error('there is no receipt key, although one was added');
}

function openKey(stored: StoredReceiptKey, { secrets, log }: KeyContext): ReceiptKey | null {
  try {
    const pem = secrets.open(stored.privateKey, stored.id);
    return { publicKey: stored.publicKey, privateKey: createPrivateKey(pem) };
  } catch (error) {
    if (!(error instanceof SecretUnopenable)) throw error;
    log.warn(
      { id: stored.id },
      'the secret key does not open the receipt key; a new one signs case files from now on',
    );
    return null;
  }
}

function newKey(secrets: KeyContext['secrets']) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const id = newId();
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  return { id, publicKey: rawPublicKey(publicKey), privateKey: secrets.seal(pem, id) };
}

function rawPublicKey(key: KeyObject): string {
  const { x } = key.export({ format: 'jwk' });
  return Buffer.from(x!, 'base64url').toString('base64');
}
