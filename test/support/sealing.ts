/**
 * Encrypts the backups of tests for an identity of age, which takes 0.04 s of CPU time. A passphrase takes 1.4 s for
 * each encryption and decryption, so only tests about passphrases use one.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './embedded.ts';

export const RECIPIENT = 'age1jp4hqps2tse2ys4zfegurykwwn9ne5gd5h8d5cunk9npc84s953s3kzu7e';
const IDENTITY = 'AGE-SECRET-KEY-1A62DDELRUMU49L62R6F9KZCX25JX0C3JCYQ77P9S43K54U2SDZHS0DVME0';

/** Environment of a service that makes backups. */
export const SEALED = { LETTERHAUS_BACKUP_RECIPIENT: RECIPIENT };

/** Returns arguments for `letterhaus restore`. */
export function opening(): string[] {
  const file = join(temporaryFolder(), 'identity');
  writeFileSync(file, `${IDENTITY}\n`);
  return ['--identity', file];
}
