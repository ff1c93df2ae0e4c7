/** Generates and seals DKIM keys of a domain, with selectors that no other project uses. */
import { randomBytes } from 'node:crypto';
import type { Refusal } from '../core/refusals.ts';
import { type DkimKeyPair, generateDkimKeys } from '../mail/dkim.ts';
import type { NewKeys } from './dkim-key-store.ts';
import type { SecretBox } from '../secrets/secret-box.ts';

const WAITING_MAX = 32;
export const TOO_MANY_AT_ONCE: Refusal = {
  refused: 'service_unavailable',
  message: 'Too many domains are being added; try again in a few seconds.',
};
let waitingCount = 0;
let lastKeys: Promise<unknown> = Promise.resolve();

/**
 * Generates keys for one domain at a time. An RSA key occupies one of the process's four helper threads, which also
 * serve file access and name look-ups.
 * Returns null when too many domains are waiting.
 */
export async function generateKeys(existing?: DkimKeyPair): Promise<DkimKeys | null> {
  if (waitingCount >= WAITING_MAX) return null;
  waitingCount += 1;
  const generate = () => generateDkimKeys(existing);
  const generated = lastKeys.then(generate, generate);
  lastKeys = generated;
  return generated.finally(() => (waitingCount -= 1));
}

export type DkimKeys = Awaited<ReturnType<typeof generateDkimKeys>>;

export function sealKeys(
  { rsa, ed25519 }: DkimKeys,
  { id, secrets }: { id: string; secrets: Pick<SecretBox, 'seal'> },
): NewKeys {
  // Selectors are unique, so records published for another project do not verify this domain.
  const suffix = randomBytes(4).toString('hex');
  return {
    rsaSelector: `lh1-${suffix}`,
    rsaPublicKey: rsa.publicKey,
    rsaPrivateKey: secrets.seal(rsa.privateKey, id),
    ed25519Selector: `lh2-${suffix}`,
    ed25519PublicKey: ed25519.publicKey,
    ed25519PrivateKey: secrets.seal(ed25519.privateKey, id),
  };
}
