/** The variables of backups: what seals the secret key in them. */
import { requirePassphrase } from '../backup/sealed-key.ts';
import type { EnvReader } from './env-reader.ts';

export type BackupConfig = {
  /** null: nothing is configured. */
  passphrase: string | null;
  recipients: readonly string[];
};

export function readBackup(read: EnvReader): { backup: BackupConfig } {
  const backup = {
    passphrase: read.secret(
      'LETTERHAUS_BACKUP_PASSPHRASE',
      parsePassphrase,
      'write at least 12 characters (openssl rand -base64 24)',
    ),
    recipients: read.list(
      'LETTERHAUS_BACKUP_RECIPIENT',
      (text) => (/^age1[0-9a-z]{20,}$/.test(text) ? text : null),
      'write a recipient of age, as age1… (age-keygen prints it)',
    ),
  };
  return { backup: Object.freeze(backup) };
}

function parsePassphrase(text: string): string | null {
  try {
    return requirePassphrase(text, 'LETTERHAUS_BACKUP_PASSPHRASE');
  } catch {
    return null;
  }
}
