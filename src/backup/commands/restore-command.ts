/**
 * `letterhaus restore`: fills an empty data directory, or the empty database of DATABASE_URL, from a backup. The
 * installation is on hold until `letterhaus release`.
 */
import { restoreResult } from './restore-result.ts';
import type { Command } from 'commander';
import { requireSpace } from '../places/folder-place.ts';
import { fileToRead, locate } from '../places/locate-place.ts';
import { megabytes } from '../places/backup-place.ts';
import {
  checkBackup,
  fillFrom,
  type ReplayCounts,
  type RestoreProgress,
} from '../restore-backup.ts';
import { readIdentities, readPassphrase, type Opening } from '../sealed-key.ts';
import type { BackupFacts } from '../walk-backup.ts';
import { type Config, readConfig } from '../../config/config.ts';
import { openRestoreTarget } from '../store/restore-target.ts';
import { writeDatabaseNote } from '../../database/server/database-note.ts';
import { withoutPassword } from '../../database/server/address.ts';
import type { DatabaseAddress } from '../../database/database.ts';
import { prepareDataDir } from '../../database/embedded/layout.ts';
import { migrate } from '../../migration/migrate.ts';
import { readSecretKey, storeRestoredSecretKey } from '../../secrets/secret-key-file.ts';
import { backupFailure } from './backup-failure.ts';
import {
  type Cli,
  type CommandResult,
  parseTime,
  PROGRESS_EVERY_MS,
  runnable,
  usageFailure,
} from '../../cli/command.ts';
import { throttled } from '../throttled.ts';
import { type ConfiguredDatabase, withAddress } from '../../cli/store.ts';

export function describeRestore(command: Command, cli: Cli): void {
  runnable(
    command
      .argument(
        '<file>',
        'a backup: a file, or s3://bucket/name; with --point-in-time the archive: a folder, or s3://bucket/prefix/',
      )
      .option(
        '--point-in-time <time>',
        'restore to this time, from the archive of LETTERHAUS_POINT_IN_TIME',
        (text) => parseTime(text, cli.world.now()),
      )
      .option('--passphrase-file <path>', 'file with the passphrase that opens the secret key')
      .option('--identity <path>', 'file with the age identity that opens the secret key'),
    cli,
    {
      examples: [
        'restore --passphrase-file /etc/letterhaus/passphrase letterhaus-20261125T090000Z.backup',
        'restore --point-in-time 2026-11-25T10:31Z /var/backups/letterhaus-wal',
      ],
      run,
    },
  );
}

type Options = { pointInTime?: Date; passphraseFile?: string; identity?: string };

async function run(cli: Cli, options: Options, [file]: [string]): Promise<CommandResult> {
  if (file === '-') return usageFailure('A backup is read twice. Save it to a file first.');
  const read = readConfig(cli.env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const { config } = read;
  try {
    const opening = await chooseOpening(options, config);
    const { pointInTime: at } = options;
    if (at !== undefined) {
      const { restorePointInTime } = await import('./restore-point-in-time-command.ts');
      return await restorePointInTime(cli, file, { at, config, opening });
    }
    return await restore(cli, file, { config, opening });
  } catch (error) {
    return backupFailure(error);
  }
}

async function chooseOpening(
  { passphraseFile, identity }: Options,
  { backup }: Config,
): Promise<Opening> {
  if (passphraseFile !== undefined) return { passphrase: await readPassphrase(passphraseFile) };
  if (identity !== undefined) return { identities: await readIdentities(identity) };
  return backup.passphrase === null ? null : { passphrase: backup.passphrase };
}

/** Checks the file first: opening the database would create one in the data directory. */
async function restore(
  cli: Cli,
  file: string,
  { config, opening }: { config: Config; opening: Opening },
): Promise<CommandResult> {
  const located = await locate(file, { access: config.backup.s3, world: cli.world });
  const { journal } = located.place;
  const backup = await fileToRead(located);
  const read = (): AsyncIterable<Buffer> => located.place.read(backup);
  const onProgress = reportProgress(cli);
  const present = config.secretKey ?? readSecretKey(config.dataDir);
  const { facts, secretKey } = await checkBackup(read, { opening, present, onProgress });
  const fill = async ({ address, isInService }: ConfiguredDatabase): Promise<CommandResult> => {
    if (isInService) return usageFailure(SERVICE_IS_RUNNING);
    try {
      await using target = await openRestoreTarget(address);
      if (config.databaseUrl === null) {
        const bytes = facts.bytes * DISK_PER_BYTE;
        await requireSpace(config.dataDir, { work: 'restore', bytes });
      }
      const dataDir = prepareDataDir(config.dataDir);
      const keepSecretKey = (): void => {
        if (config.secretKey === null) storeRestoredSecretKey(dataDir, secretKey);
      };
      const replayed = await fillFrom(read, target, {
        facts,
        keepSecretKey,
        journal,
        onProgress,
      });
      await migrateAsStartDoes(cli, { address, config });
      const { databaseUrl } = config;
      writeDatabaseNote(dataDir, databaseUrl === null ? 'embedded' : withoutPassword(databaseUrl));
      return backupRestoreResult(cli, facts, replayed);
    } catch (error) {
      return backupFailure(error);
    }
  };
  return withAddress(cli, fill, { mayReplaceLost: true });
}

const SERVICE_IS_RUNNING =
  'Letterhaus is running on this data directory. Stop it, and restore into an empty one.';

/** Disk space per byte of rows: for the rows, their indexes, and the WAL of a repeated restore. */
const DISK_PER_BYTE = 2.5;

async function migrateAsStartDoes(
  cli: Cli,
  { address, config }: { address: DatabaseAddress; config: Config },
): Promise<void> {
  await migrate(address, {
    nowMs: cli.world.now(),
    acceptAnyDurability: config.acceptDatabaseDurability,
    log: (sentence) => cli.err(`${sentence}\n`),
  });
}

function backupRestoreResult(
  { program }: Cli,
  { header, rows }: BackupFacts,
  { suppressions, keys }: ReplayCounts,
): CommandResult {
  const { takenAt, open, version } = header;
  return restoreResult(
    program,
    { takenAt, open, version, rows, emails: rows['emails'] ?? 0 },
    { suppressions, keys },
  );
}

function reportProgress({ world, err }: Cli): RestoreProgress {
  return throttled(PROGRESS_EVERY_MS, world, ({ step, table, bytes }) => {
    err(`${table}: ${megabytes(bytes)} ${step}\n`);
  });
}
