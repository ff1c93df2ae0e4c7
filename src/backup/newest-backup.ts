/** Finds the newest backup in the place of scheduled backups. */
import type { World } from '../lib/world.ts';
import { S3Problem } from '../net/s3/problems.ts';
import type { S3Access } from '../net/s3/transport.ts';
import { isInBucket } from './places/bucket-url.ts';
import { PlaceProblem, backupTimeMs } from './places/backup-place.ts';

export type NewestBackup = { place: string } & (
  | { problem: string }
  | { file: null }
  | { file: string; ageMs: number }
);

const NO_ACCESS =
  'workers have no access to the bucket; `letterhaus attention` lists it on the machine of the service';

/**
 * A worker has no credentials for a bucket (service/pool/worker-pool.ts).
 * @returns null when the service makes no backups
 */
export async function findNewestBackup(
  { to, s3 }: { to: string | null; s3: S3Access | null },
  world: World,
): Promise<NewestBackup | null> {
  if (to === null) return null;
  if (isInBucket(to) && s3 === null) return { place: to, problem: NO_ACCESS };
  // A start does not load it: few requests ask, and few installations make backups (service/machine/privileges.ts).
  const { backupPlaceAt } = await import('./places/locate-place.ts');
  const place = backupPlaceAt(to, { access: s3, world });
  try {
    const file = (await place.list()).at(-1);
    const atMs = file === undefined ? null : backupTimeMs(file);
    if (file === undefined || atMs === null) return { place: place.name, file: null };
    return { place: place.name, file, ageMs: world.now() - atMs };
  } catch (error) {
    if (!(error instanceof PlaceProblem || error instanceof S3Problem)) throw error;
    return { place: place.name, problem: error.message };
  }
}

export function newestToWire(backup: NewestBackup) {
  return {
    to: backup.place,
    newest: 'file' in backup ? backup.file : null,
    age_seconds: 'ageMs' in backup ? Math.round(backup.ageMs / 1_000) : null,
    problem: 'problem' in backup ? backup.problem : null,
  };
}
