/**
 * `letterhaus backup`: writes the database and the sealed secret key to a file or a pipe while the service runs, or
 * checks a file. The guide is docs/backup.md.
 */
import { type Command, Option } from 'commander';
import packageFile from '../../../package.json' with { type: 'json' };
import { type MadeBackup, makeBackup, type Progress } from '../make-backup.ts';
import { pipeDestination } from '../places/folder-place.ts';
import { isInBucket } from '../places/bucket-url.ts';
import { fileToRead, locate, type Located, fileToWrite } from '../places/locate-place.ts';
import { type Destination, megabytes, PlaceProblem } from '../places/backup-place.ts';
import { readPassphrase, type Sealing, sealingOf, SealProblem } from '../sealed-key.ts';
import { walkBackup } from '../walk-backup.ts';
import { readBackup } from '../../config/backup.ts';
import type { Config } from '../../config/config.ts';
import { noteBackup } from '../store/last-backup.ts';
import { EnvReader } from '../../config/env-reader.ts';
import { readSecretKey } from '../../secrets/secret-key-file.ts';
import { backupFailure } from './backup-failure.ts';
import {
  type Cli,
  type CommandResult,
  PROGRESS_EVERY_MS,
  runnable,
  type Success,
  usageFailure,
} from '../../cli/command.ts';
import type { DatabaseAddress } from '../../database/database.ts';
import { throttled } from '../throttled.ts';
import { type ConfiguredDatabase, withAddress } from '../../cli/store.ts';

const PIPE = '-';

export function describeBackup(command: Command, cli: Cli): void {
  runnable(
    command
      .argument('<file>', 'a file, a folder, s3://bucket/prefix/ or - for standard output')
      .option('--verify', 'read and check a backup instead of writing one')
      .option('--passphrase-file <path>', 'seal the secret key with the passphrase in this file')
      .addOption(
        new Option('--recipient <age1…>', 'seal the secret key for this age recipient; repeatable')
          .default([] as string[], 'none')
          .argParser((text: string, before: string[]) => [...before, text]),
      )
      .option('--without-secret-key', 'leave out the secret key, which you keep elsewhere'),
    cli,
    {
      examples: [
        'backup --passphrase-file /etc/letterhaus/passphrase /var/backups',
        'backup --verify /var/backups/letterhaus-20261125T090000Z.backup',
        'backup --passphrase-file /etc/letterhaus/passphrase s3://acme-backups/letterhaus/',
      ],
      run,
    },
  );
}

type Options = {
  verify?: true;
  passphraseFile?: string;
  recipient: string[];
  withoutSecretKey?: true;
};

async function run(cli: Cli, options: Options, [file]: [string]): Promise<CommandResult> {
  if (options.verify === true) return verify(cli, file);
  return withAddress(cli, async (database) => {
    try {
      const sealing = await chooseSealing(options, database.config);
      return await write(cli, file, { database, sealing });
    } catch (error) {
      return backupFailure(error);
    }
  });
}

/** Returns how to seal the key. Options take precedence over the variables of scheduled backups. @throws SealProblem */
async function chooseSealing(options: Options, { backup }: Config): Promise<Sealing> {
  const { withoutSecretKey, passphraseFile, recipient } = options;
  if (withoutSecretKey === true) return null;
  if (passphraseFile !== undefined) return { passphrase: await readPassphrase(passphraseFile) };
  if (recipient.length > 0) return { recipients: recipient };
  const configured = sealingOf(backup);
  if (configured !== null) return configured;
  throw new SealProblem(
    'A backup contains the secret key, sealed. Add --passphrase-file FILE or --recipient age1…, or --without-secret-key if you keep it elsewhere.',
  );
}

async function write(
  cli: Cli,
  file: string,
  { database, sealing }: { database: ConfiguredDatabase; sealing: Sealing },
): Promise<CommandResult> {
  const { address, config } = database;
  const secretKey = config.secretKey ?? readSecretKey(config.dataDir);
  if (secretKey === null) {
    return usageFailure(
      `There is no secret key in ${config.dataDir}. Run this on the machine of the service, or set LETTERHAUS_SECRET_KEY.`,
    );
  }
  const located =
    file === PIPE ? null : await locate(file, { access: config.backup.s3, world: cli.world });
  const path = located && fileToWrite(located, cli.world.now());
  const made = await makeBackup({
    address,
    secretKey,
    sealing,
    version: packageFile.version,
    openDestination: (bytes) => openDestination(located, path, bytes),
    onProgress: reportProgress(cli),
  });
  await storeTime(cli, address, { made, path });
  const emails = made.rows['emails'] ?? 0;
  const text = `${path === null ? 'The backup' : path} has ${emails} emails, ${made.header.open} recipients of them open, as of ${made.header.takenAt}: ${megabytes(made.bytes)}.`;
  if (path !== null) return { data: { object: 'backup', file: path, ...summary(made) }, text };
  cli.err(`${text}\n`);
  return { data: null, text: '' };
}

function openDestination(
  located: Located | null,
  path: string | null,
  bytes: number,
): Promise<Destination> {
  return located === null || path === null
    ? Promise.resolve(pipeDestination(process.stdout))
    : located.place.create(path, bytes);
}

/** Stores the time of the backup in the database. A failure is printed, because the backup is complete. */
async function storeTime(
  cli: Cli,
  address: DatabaseAddress,
  { made: { header }, path }: { made: MadeBackup; path: string | null },
): Promise<void> {
  const { schema, takenAt } = header;
  try {
    await noteBackup(address, { schema, takenAt, place: path ?? 'a pipe' });
  } catch (error) {
    const { message } = error as Error;
    cli.err(`The backup is complete, but its time could not be stored: ${message}\n`);
  }
}

function summary({ header, rows, bytes, sha256 }: MadeBackup) {
  const { takenAt, schema, version, open } = header;
  return { taken_at: takenAt, version, schema, open, rows, bytes, sha256 };
}

function reportProgress({ world, err }: Cli): Progress {
  return throttled(PROGRESS_EVERY_MS, world, ({ table, bytes, ofBytes }) => {
    err(`${table}: ${megabytes(bytes)} of about ${megabytes(ofBytes)}\n`);
  });
}

async function verify(cli: Cli, file: string): Promise<CommandResult> {
  try {
    const { header, rows, bytes } = await walkBackup(await openFile(cli, file), {
      rows: () => Promise.resolve(),
    });
    const key =
      header.sealedFor === null
        ? 'without the secret key'
        : `with the secret key, sealed ${header.sealedFor === 'passphrase' ? 'by a passphrase' : 'for a recipient'}`;
    const success: Success = {
      data: {
        object: 'backup',
        taken_at: header.takenAt,
        version: header.version,
        schema: header.schema,
        postgres: header.postgres,
        open: header.open,
        rows,
        bytes,
        sealed_for: header.sealedFor,
      },
      text: `The backup is complete and unchanged: ${rows['emails'] ?? 0} emails, ${header.open} recipients of them open, as of ${header.takenAt}, ${key}.`,
    };
    return success;
  } catch (error) {
    return backupFailure(error);
  }
}

/** Opens a backup. Reads only the configuration of backups, so a machine without a service can check one. */
async function openFile(cli: Cli, file: string): Promise<AsyncIterable<Buffer>> {
  if (file === PIPE) return process.stdin as AsyncIterable<Buffer>;
  const env = new EnvReader(cli.env);
  const { backup } = readBackup(env);
  const [problem] = env.problems;
  if (problem !== undefined && isInBucket(file)) throw new PlaceProblem(problem);
  const located = await locate(file, { access: backup.s3, world: cli.world });
  return located.place.read(await fileToRead(located));
}
