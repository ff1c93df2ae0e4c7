/**
 * The secret key in a backup, sealed with age (age-encryption.org): with a passphrase, or for recipients whose
 * identities are elsewhere. A backup needs the key, which opens its DKIM keys and webhook secrets. A key in clear would
 * give an attacker everything in one file.
 */
import { readFile } from 'node:fs/promises';

/** How to seal the key, or null when the backup has no key, and the operator keeps it elsewhere. */
export type Sealing = { passphrase: string } | { recipients: readonly string[] } | null;

export type SealingConfig = { passphrase: string | null; recipients: readonly string[] };

export type Opening = { passphrase: string } | { identities: readonly string[] } | null;

/** A passphrase, recipient, identity or key that cannot be used. The message is for the operator. */
export class SealProblem extends Error {
  override readonly name = 'SealProblem';
}

const PASSPHRASE_CHARACTERS_MIN = 12;

/** Returns how the configuration seals the key: by the passphrase, else for the recipients, else not at all. */
export function sealingOf({ passphrase, recipients }: SealingConfig): Sealing {
  if (passphrase !== null) return { passphrase };
  return recipients.length > 0 ? { recipients } : null;
}

/** @throws SealProblem for an invalid recipient */
export async function sealKey(secretKey: string, sealing: NonNullable<Sealing>): Promise<Buffer> {
  const { Encrypter } = await import('age-encryption');
  const encrypter = new Encrypter();
  if ('passphrase' in sealing) encrypter.setPassphrase(sealing.passphrase);
  else for (const recipient of sealing.recipients) addRecipient(encrypter, recipient);
  return Buffer.from(await encrypter.encrypt(secretKey));
}

function addRecipient(encrypter: { addRecipient(text: string): void }, recipient: string): void {
  try {
    encrypter.addRecipient(recipient);
  } catch {
    throw new SealProblem(
      `${JSON.stringify(recipient)} is not an age recipient. Recipients begin with age1 (age-keygen prints them).`,
    );
  }
}

/** @throws SealProblem when it does not open */
export async function openKey(sealed: Buffer, opening: NonNullable<Opening>): Promise<string> {
  const { Decrypter } = await import('age-encryption');
  const decrypter = new Decrypter();
  try {
    if ('passphrase' in opening) decrypter.addPassphrase(opening.passphrase);
    else for (const identity of opening.identities) decrypter.addIdentity(identity);
    return await decrypter.decrypt(sealed, 'text');
  } catch {
    throw new SealProblem(
      'passphrase' in opening
        ? 'The passphrase does not open the secret key of this backup.'
        : 'The identity does not open the secret key of this backup.',
    );
  }
}

/** Reads the passphrase from the first line of a file. @throws SealProblem */
export async function readPassphrase(path: string): Promise<string> {
  const [line = ''] = (await readText(path)).split(/\r?\n/, 1);
  return requirePassphrase(line, path);
}

/** @throws SealProblem when it is too short */
export function requirePassphrase(text: string, where: string): string {
  if (text.length >= PASSPHRASE_CHARACTERS_MIN) return text;
  throw new SealProblem(
    `The passphrase in ${where} has fewer than ${PASSPHRASE_CHARACTERS_MIN} characters. Use a longer one (openssl rand -base64 24).`,
  );
}

export async function readIdentities(path: string): Promise<string[]> {
  const lines = (await readText(path)).split(/\r?\n/).map((line) => line.trim());
  const identities = lines.filter((line) => line.startsWith('AGE-SECRET-KEY-'));
  if (identities.length > 0) return identities;
  throw new SealProblem(
    `${path} has no age identity, which is a line that begins with AGE-SECRET-KEY-.`,
  );
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    throw new SealProblem(`${path} cannot be read (${code}).`);
  }
}
