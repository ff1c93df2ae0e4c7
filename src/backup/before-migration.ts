/**
 * The backup before a migration that asks for one (migration/effects.ts). Every start and command that would migrate
 * makes it, reads it back and checks it. Only then the migration begins.
 *
 * Its name has the two schema versions, so a repeated start replaces it. Scheduled backups, which remove their older
 * ones, ignore it.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { World } from '../lib/world.ts';
import type { S3Access } from '../net/s3/transport.ts';
import { type DatabaseAddress, DatabaseUnavailable } from '../database/database.ts';
import type { BackUpBeforeMigration } from '../migration/migrate.ts';
import { DatabaseUnusable } from '../database/server/unusable-error.ts';
import type { Sink } from './format.ts';
import { fileIn, isInBucket, placeOf } from './places/locate.ts';
import { makeBackup, type MadeBackup } from './make.ts';
import { type BackupPlace, type Destination, megabytes, PlaceProblem } from './places/place.ts';
import { type Sealing, SealProblem } from './sealed-key.ts';
import { walkBackup } from './walk.ts';

export type BeforeMigration = {
  address: DatabaseAddress;
  dataDir: string;
  /** Null when this machine has no secret key. */
  secretKey: () => string | null;
  /** `to`: the place of scheduled backups. */
  backup: {
    to: string | null;
    passphrase: string | null;
    recipients: readonly string[];
    s3: S3Access | null;
  };
  version: string;
  world: Pick<World, 'now' | 'random' | 'newId' | 'monotonicMs'>;
  log: (sentence: string) => void;
  signal?: AbortSignal | undefined;
};

const SKIP = 'LETTERHAUS_MIGRATE_WITHOUT_BACKUP=1';

/** Returns the backup step for `migrate`. The step throws DatabaseUnusable when it fails. */
export function backupBeforeMigration(options: BeforeMigration): BackUpBeforeMigration {
  return async ({ version: schemaVersion, migrations }) => {
    const { log } = options;
    const last = migrations.at(-1)!;
    const { backup, world } = options;
    const place = placeOf(backupPlaceName(options), { access: backup.s3, world });
    const path = fileIn(place, `letterhaus-schema-${schemaVersion}-before-${last.version}.backup`);
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
      throw new DatabaseUnusable(
        `Migration ${last.file} needs a backup first, which failed: ${sentence(error)} Nothing was migrated. ` +
          `Fix the cause and start again, or set ${SKIP} if you have a backup of your own.`,
        { cause: error },
      );
    }
  };
}

export function backupPlaceName({ backup, dataDir }: BackupPlaceOptions): string {
  return backup.to ?? join(dataDir, 'backups');
}

type BackupPlaceOptions = { backup: { to: string | null }; dataDir: string };

function sentence(error: unknown): string {
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
  const made = await writeBackup((bytes) => place.create(path, bytes), {
    address,
    secretKey,
    sealing: sealingOf(options),
    version,
    onProgress: reporting(options),
    signal,
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
  const dead = (await readdir(folder)).filter((name) => name.startsWith(`.${basename(path)}.`));
  for (const name of dead) await rm(join(folder, name), { force: true });
}

type Writing = Omit<Parameters<typeof makeBackup>[0], 'openSink'> & {
  signal: AbortSignal | undefined;
};

async function writeBackup(
  create: (bytes: number) => Promise<Destination>,
  { signal, ...given }: Writing,
): Promise<MadeBackup> {
  let file: Destination | undefined;
  const openSink = async (bytes: number): Promise<Sink> => {
    const opened = await create(bytes);
    file = opened;
    return {
      write: (part) => {
        signal?.throwIfAborted();
        return opened.write(part);
      },
    };
  };
  const present = (): Destination | undefined => file;
  try {
    const made = await makeBackup({ ...given, openSink });
    await present()?.finish();
    return made;
  } catch (error) {
    await present()?.abandon();
    throw error;
  }
}

/** Returns null when there is nothing to seal with. The backup then has no key. */
function sealingOf({ backup: { passphrase, recipients } }: BeforeMigration): Sealing {
  if (passphrase !== null) return { passphrase };
  return recipients.length > 0 ? { recipients } : null;
}

const REPORT_EVERY_MS = 5_000;

function reporting({ world, log }: BeforeMigration) {
  let reportedMs = world.monotonicMs();
  return ({ bytes, ofBytes }: { bytes: number; ofBytes: number }): void => {
    if (world.monotonicMs() - reportedMs < REPORT_EVERY_MS) return;
    reportedMs = world.monotonicMs();
    log(`the backup has ${megabytes(bytes)} of about ${megabytes(ofBytes)}`);
  };
}
