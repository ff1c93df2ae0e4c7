/**
 * The backup before a migration that asks for one (migration/effects.ts). Every start and command that would migrate
 * makes it, reads it back and checks it. Only then the migration begins.
 *
 * Its name contains the two schema versions, so a repeated start replaces it. Scheduled backups, which remove their
 * older ones, ignore it.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { throttled } from './throttled.ts';
import type { World } from '../lib/world.ts';
import type { S3Access } from '../net/s3/transport.ts';
import { type DatabaseAddress, DatabaseUnavailable } from '../database/database.ts';
import type { BackUpBeforeMigration } from '../migration/migrate.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { isInBucket } from './places/bucket-url.ts';
import { pathIn, backupPlaceAt } from './places/locate-place.ts';
import { makeBackup, type MadeBackup, type Progress } from './make-backup.ts';
import {
  type BackupPlace,
  type Destination,
  megabytes,
  PlaceProblem,
} from './places/backup-place.ts';
import { type SealingConfig, sealingOf, SealProblem } from './sealed-key.ts';
import { walkBackup } from './walk-backup.ts';

export type BeforeMigration = {
  address: DatabaseAddress;
  dataDir: string;
  /** Null when this machine has no secret key. */
  secretKey: () => string | null;
  backup: SealingConfig & {
    /** The place of scheduled backups. */
    to: string | null;
    s3: S3Access | null;
  };
  version: string;
  world: Pick<World, 'now' | 'random' | 'newId' | 'monotonicMs'>;
  log: (sentence: string) => void;
  signal?: AbortSignal | undefined;
};

const SKIP_SETTING = 'LETTERHAUS_MIGRATE_WITHOUT_BACKUP=1';
const REPORT_EVERY_MS = 5_000;

/** Returns the backup step for `migrate`. The step throws RefusedDatabase when it fails. */
export function backupBeforeMigration(options: BeforeMigration): BackUpBeforeMigration {
  return async ({ version: schemaVersion, migrations }) => {
    const { log } = options;
    const lastMigration = migrations.at(-1)!;
    const { backup, world } = options;
    const place = backupPlaceAt(backupPlaceName(options), { access: backup.s3, world });
    const path = pathIn(
      place,
      `letterhaus-schema-${schemaVersion}-before-${lastMigration.version}.backup`,
    );
    const reasons = migrations
      .map(({ file, backupReason }) => `${file} (${backupReason})`)
      .join(', ');
    log(`a backup is made before migration ${reasons}: ${path}`);
    try {
      const { bytes } = await makeAndCheck(place, path, options);
      log(`the backup is complete and checked (${megabytes(bytes)}); the migration begins`);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof DatabaseUnavailable) throw error;
      throw new RefusedDatabase(
        `Migration ${lastMigration.file} needs a backup first, which failed: ${sentenceOf(error)} Nothing was migrated. ` +
          `Fix the cause and start again, or set ${SKIP_SETTING} if you have a backup of your own.`,
        { cause: error },
      );
    }
  };
}

export function backupPlaceName({ backup, dataDir }: BackupPlaceOptions): string {
  return backup.to ?? join(dataDir, 'backups');
}

type BackupPlaceOptions = { backup: { to: string | null }; dataDir: string };

function sentenceOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.endsWith('.') ? message : `${message}.`;
}

async function makeAndCheck(
  place: BackupPlace,
  path: string,
  options: BeforeMigration,
): Promise<MadeBackup> {
  const { address, version, signal } = options;
  const secretKey = options.secretKey();
  if (secretKey === null) {
    throw new SealProblem(
      'There is no secret key on this machine. Run this on the machine of the service.',
    );
  }
  // A start that failed before it migrated may have left a backup of this name. A bucket does not replace it.
  if (isInBucket(path)) await place.remove(path);
  else await prepareFolder(path);
  const made = await makeBackup({
    address,
    secretKey,
    sealing: sealingOf(options.backup),
    version,
    openDestination: async (bytes) => abortable(await place.create(path, bytes), signal),
    onProgress: reportProgress(options),
  });
  await walkBackup(place.read(path), {
    rows: () => {
      signal?.throwIfAborted();
      return Promise.resolve();
    },
  });
  return made;
}

/**
 * Creates the folder, and removes the leftovers of a killed start. This process has the migration lock, so no other one
 * writes this backup.
 */
async function prepareFolder(path: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { mode: 0o700, recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new PlaceProblem(`${folder} cannot be created (${error.code}).`);
  });
  const prefix = `.${basename(path)}.`;
  const leftovers = (await readdir(folder)).filter((name) => name.startsWith(prefix));
  for (const name of leftovers) await rm(join(folder, name), { force: true });
}

/** Returns a destination whose writes throw once the signal is aborted. */
function abortable(destination: Destination, signal: AbortSignal | undefined): Destination {
  const write = (bytes: Buffer): Promise<void> => {
    signal?.throwIfAborted();
    return destination.write(bytes);
  };
  return { ...destination, write };
}

function reportProgress({ world, log }: BeforeMigration): Progress {
  return throttled(REPORT_EVERY_MS, world, ({ bytes, ofBytes }) => {
    log(`the backup has ${megabytes(bytes)} of about ${megabytes(ofBytes)}`);
  });
}
