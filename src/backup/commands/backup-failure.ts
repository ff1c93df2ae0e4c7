/** Converts failures of backup and restore into outcomes of a command. Rethrows other errors. */
import { BackupDamaged } from '../format.ts';
import { PlaceProblem } from '../places/backup-place.ts';
import { SealProblem } from '../sealed-key.ts';
import { S3Problem } from '../../net/s3/problems.ts';
import { type Failure, usageFailure } from '../../cli/command.ts';

export function backupFailure(error: unknown): Failure {
  if (error instanceof SealProblem || error instanceof PlaceProblem) {
    return usageFailure(error.message);
  }
  if (error instanceof S3Problem) {
    return { failed: error.message, code: 'object_store', exitCode: 1 };
  }
  if (error instanceof BackupDamaged) {
    return { failed: error.message, code: 'backup_damaged', exitCode: 1 };
  }
  throw error;
}
