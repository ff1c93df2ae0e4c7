/**
 * The secret key in a backup, sealed with age (age-encryption.org): by a passphrase, or for recipients
 * whose identities are elsewhere. Without the key, DKIM keys and webhook secrets of the backup cannot be
 * opened, so it belongs to it; in clear, the file would be all that an attacker needs.
 */
import { readFile } from 'node:fs/promises';

/** How to seal; null: the backup has no key, and the operator keeps it elsewhere. */
export type Sealing = { passphrase: string } | { recipients: readonly string[] } | null;

export type Opening = { passphrase: string } | { identities: readonly string[] } | null;

/** What cannot be used, as a sentence for the operator. */
export class SealProblem extends Error {
  override readonly name = 'SealProblem';
}

const PASSPHRASE_CHARACTERS_MIN = 12;

/** @throws SealProblem for a recipient that is none */
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
      `${JSON.stringify(recipient)} is not a recipient of age: it begins with age1 (age-keygen prints it).`,
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

/** The passphrase in a file: its first line. @throws SealProblem */
export async function readPassphrase(path: string): Promise<string> {
  const [line = ''] = (await readText(path)).split(/\r?\n/, 1);
  return requirePassphrase(line, path);
}

/** @throws SealProblem when it is too short */
export function requirePassphrase(text: string, where: string): string {
  if (text.length >= PASSPHRASE_CHARACTERS_MIN) return text;
  throw new SealProblem(
    `The passphrase in ${where} has less than ${PASSPHRASE_CHARACTERS_MIN} characters: use a longer one (openssl rand -base64 24).`,
  );
}

/** The identities in a file of age-keygen. @throws SealProblem */
export async function readIdentities(path: string): Promise<string[]> {
  const lines = (await readText(path)).split(/\r?\n/).map((line) => line.trim());
  const identities = lines.filter((line) => line.startsWith('AGE-SECRET-KEY-'));
  if (identities.length > 0) return identities;
  throw new SealProblem(`${path} has no identity of age: a line that begins with AGE-SECRET-KEY-.`);
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    throw new SealProblem(`${path} cannot be read (${code}).`);
  }
}
