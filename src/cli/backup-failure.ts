/** The failures of backup and restore as outcomes of a command; anything else is thrown on. */
import { PlaceProblem } from '../backup/files.ts';
import { BackupDamaged } from '../backup/format.ts';
import { SealProblem } from '../backup/sealed-key.ts';
import { type Failure, usageFailure } from './command.ts';

export function backupFailure(error: unknown): Failure {
  if (error instanceof SealProblem || error instanceof PlaceProblem) {
    return usageFailure(error.message);
  }
  if (error instanceof BackupDamaged) {
    return { failed: error.message, code: 'backup_damaged', exitCode: 1 };
  }
  throw error;
}
