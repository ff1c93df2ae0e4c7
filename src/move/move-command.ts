/**
 * `letterhaus move`: moves the database to another server, or between the embedded one and a server, while the service
 * runs. It runs on a node, with the node's configuration. The guide is docs/moving-database.md.
 */
import type { Command } from 'commander';
import { megabytes } from '../backup/places/backup-place.ts';
import { requireSpace } from '../backup/places/folder-place.ts';
import type { Config } from '../config/config.ts';
import { parseDatabaseUrl } from '../config/env-reader.ts';
import {
  moveDatabase,
  type MoveResult,
  MoveProblem,
  type MoveOptions,
  type MovePlan,
  type MoveProgress,
  type MoveStep,
  planMove,
  type CopyProgress,
} from './move-database.ts';
import { armSupervisor } from '../service/machine/failpoints.ts';
import { destinationOf, sealDestination } from './fence-store.ts';
import { findLocalDataDirectory } from '../database/server/capacity.ts';
import { clientQueries, connectAsOwner, type DatabaseAddress } from '../database/database.ts';
import { withoutPassword } from '../database/server/address.ts';
import { openUnderLock } from '../database/embedded/engine.ts';
import { prepareDataDir } from '../database/embedded/layout.ts';
import { tryArrivalLock } from '../database/embedded/lock.ts';
import { EMBEDDED_NAME, settingForDatabase } from '../database/server/move-marks.ts';
import { checkSecretKey } from '../secrets/key-check-store.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { findOrCreateInstanceId, requireSecretKey } from '../secrets/secret-key-file.ts';
import { backupFailure } from '../backup/commands/backup-failure.ts';
import {
  type Cli,
  type Failure,
  type CommandResult,
  conflictFailure,
  readContent,
  runnable,
  usageFailure,
} from '../cli/command.ts';
import { type ConfiguredDatabase, withAddress } from '../cli/store.ts';
import { MIB } from '../lib/units.ts';

export function describeMove(command: Command, cli: Cli): void {
  runnable(
    command
      .option('--to <place>', 'postgres://user:password@host:5432/name, or embedded')
      .option('--to-file <path>', 'read the address from a file, which keeps its password secret')
      .option('--dry-run', 'show what would be moved, and move nothing')
      .option('--undo', 'go back to the old database, as it was at the switch, on hold')
      .option(
        '--new-is-lost',
        'with --undo: the new database cannot be reached and will not be used',
      ),
    cli,
    {
      examples: [
        'move --dry-run --to postgres://letterhaus:secret@db.example.com:5432/letterhaus',
        'move --to postgres://letterhaus:secret@db.example.com:5432/letterhaus',
        'move --to embedded',
        'move --undo',
      ],
      run,
    },
  );
}

type Options = {
  to?: string;
  toFile?: string;
  dryRun?: true;
  undo?: true;
  newIsLost?: true;
  json?: boolean;
};

async function readTarget(file: string | undefined): Promise<string | undefined | Failure> {
  try {
    return (await readContent(file))?.trim();
  } catch (error) {
    return usageFailure(`--to-file cannot be read: ${(error as Error).message}.`);
  }
}

async function run(cli: Cli, options: Options): Promise<CommandResult> {
  const { undo = false, newIsLost = false } = options;
  const to = options.to ?? (await readTarget(options.toFile));
  if (typeof to === 'object') return to;
  if (undo) {
    if (to !== undefined)
      return usageFailure('--undo goes back to the old database. Leave out --to.');
    const { undoCommand } = await import('./undo-command.ts');
    return undoCommand(cli, { isNewLost: newIsLost });
  }
  const url = to === undefined || to === EMBEDDED_NAME ? null : parseDatabaseUrl(to);
  if (to === undefined || (url === null && to !== EMBEDDED_NAME))
    return usageFailure(INVALID_TARGET);
  const work = async (from: ConfiguredDatabase): Promise<CommandResult> => {
    const toName = url === null ? EMBEDDED_NAME : withoutPassword(url);
    const fromName = databaseNameOf(from.config);
    if (toName === fromName) return usageFailure(`The database is at ${toName} already.`);
    armSupervisor(from.config.failpoints);
    try {
      const move = { from, url, fromName, toName };
      return options.dryRun === true ? await showPlan(move) : await moveTo(cli, move, options);
    } catch (error) {
      if (error instanceof MoveProblem) return conflictFailure(error.message);
      return backupFailure(error);
    }
  };
  return withAddress(cli, work, { mayBeOld: true });
}

const INVALID_TARGET =
  'Write --to postgres://user:password@host:5432/name (through a socket: postgres://user@localhost/name?host=/folder), or embedded.';

function databaseNameOf({ databaseUrl }: Config): string {
  return databaseUrl === null ? EMBEDDED_NAME : withoutPassword(databaseUrl);
}

/** A null `url` means the data directory of this node. */
type PlannedMove = {
  from: ConfiguredDatabase;
  url: string | null;
  fromName: string;
  toName: string;
};

async function showPlan({ from, url, fromName, toName }: PlannedMove): Promise<CommandResult> {
  const { config, address } = from;
  const to = url === null ? null : { connectionString: url };
  const movePlan = await planMove({
    from: address,
    to,
    fromName,
    toName,
    acceptAnyDurability: config.acceptDatabaseDurability,
    requireSpace: (bytes) => requireSpaceOf(to, { bytes, config }),
  });
  return {
    data: { object: 'move', ...movePlan, from: fromName, to: toName },
    text: text(movePlan),
  };

  function text({ bytes, rows, open }: MovePlan): string {
    const count = Object.values(rows).reduce((sum, one) => sum + one, 0);
    return [
      `From ${fromName} to ${toName}:`,
      `${megabytes(bytes)} in ${count} rows, ${rows['emails'] ?? 0} emails with ${open} recipients that have not ended.`,
      `The copy takes about ${secondsText(bytes / COPY_BYTES_PER_S)}, while mail flows.`,
      `Then nothing is sent until running deliveries have ended, and requests that write wait about ${secondsText(LOCK_S + count / COUNTED_PER_S)}.`,
      'Nothing was changed.',
    ].join('\n');
  }
}

/** Speeds measured on two cores, by the size of the tables on disk (docs/decisions/0037-move.md). */
const COPY_BYTES_PER_S = 6 * MIB;
const COUNTED_PER_S = 2_000_000;
const LOCK_S = 1;

async function moveTo(
  cli: Cli,
  move: PlannedMove,
  { json = false }: Options,
): Promise<CommandResult> {
  const { from, url, fromName, toName } = move;
  const { config, address } = from;
  const secretKey = await requireKeyOfDatabase(address, config);
  const dataDir = prepareDataDir(config.dataDir);
  await using target = url === null ? await openEmbeddedTarget(cli, dataDir) : externalTarget(url);
  const destination = destinationOf(url, findOrCreateInstanceId(dataDir));
  const options: MoveOptions = {
    from: address,
    to: target.address,
    fromName,
    toName,
    sealed: sealDestination(new SecretBox(secretKey), destination),
    acceptAnyDurability: config.acceptDatabaseDurability,
    world: cli.world,
    requireSpace: (bytes) =>
      requireSpaceOf(url === null ? null : target.address, { bytes, config }),
    beforePause: target.flush,
    onProgress: reportProgress(cli, json),
  };
  return moveCommandResult(await moveDatabase(options), toName);
}

/** Checks the key first: a node with another key could not follow. @throws SecretKeyProblem */
async function requireKeyOfDatabase(address: DatabaseAddress, config: Config): Promise<string> {
  const client = await connectAsOwner(address, 'move');
  try {
    const key = { dataDir: config.dataDir, configured: config.secretKey };
    await checkSecretKey(clientQueries(client), key);
  } finally {
    await client.end();
  }
  return requireSecretKey(config);
}

type OpenTarget = AsyncDisposable & {
  address: DatabaseAddress;
  /** Writes the copied data to disk, so that the commit is short. */
  flush: () => Promise<void>;
};

function externalTarget(url: string): OpenTarget {
  return {
    address: { connectionString: url },
    flush: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Opens an engine beside the service of this data directory, which has another database. */
async function openEmbeddedTarget({ world, err }: Cli, dataDir: string): Promise<OpenTarget> {
  const lock = tryArrivalLock(dataDir);
  if (lock === null) {
    throw new MoveProblem(`Another move into ${dataDir} is running. Wait until it ends.`);
  }
  const log = (line: string): void => err(`${line}\n`);
  const engine = await openUnderLock(lock, { dataDir, world, log, mayReplaceLost: true });
  const address = engine.address();
  return {
    address,
    flush: async () => {
      const client = await connectAsOwner(address, 'checkpoint');
      try {
        await client.query('set statement_timeout = 0');
        await client.query('checkpoint');
      } finally {
        await client.end();
      }
    },
    [Symbol.asyncDispose]: () => engine.stop('fast'),
  };
}

/** Disk space per byte of rows: for the rows, their indexes, and WAL. */
const DISK_PER_BYTE = 2.5;

/** @param to null: the embedded database. The disk of another machine cannot be checked. */
async function requireSpaceOf(
  to: DatabaseAddress | null,
  { bytes, config }: { bytes: number; config: Config },
): Promise<void> {
  const folder = to === null ? config.dataDir : await dataFolderOf(to);
  if (folder !== null) await requireSpace(folder, { work: 'move', bytes: bytes * DISK_PER_BYTE });
}

async function dataFolderOf(address: DatabaseAddress): Promise<string | null> {
  const client = await connectAsOwner(address, 'space');
  try {
    return await findLocalDataDirectory(clientQueries(client));
  } finally {
    await client.end();
  }
}

function moveCommandResult(
  { wasCopied, rows, bytes, pauseMs, lockMs }: MoveResult,
  toName: string,
): CommandResult {
  const text = [
    wasCopied
      ? `Moved ${rows['emails'] ?? 0} emails, ${megabytes(bytes)}, to ${toName}. Sending paused for ${secondsText(pauseMs / 1_000)}, writing for ${secondsText(lockMs / 1_000)}.`
      : `The move to ${toName} is complete.`,
    `Running nodes follow automatically. For the next start, ${settingForDatabase(toName)}.`,
    'The old database is unchanged and takes no more writes; docs/moving-database.md says how to go back.',
  ].join('\n');
  return {
    data: {
      object: 'move',
      to: toName,
      rows,
      bytes,
      pause_ms: Math.round(pauseMs),
      lock_ms: Math.round(lockMs),
    },
    text,
  };
}

function secondsText(value: number): string {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

const STEP_TEXTS: Record<MoveStep, string> = {
  log: 'logging changes',
  copy: 'copying',
  rounds: 'copying the changes since then',
  pause: 'waiting for running deliveries',
  lock: 'writing is paused; copying the last changes and counting',
  depart: 'closing the old database',
  open: 'the new database is open',
};

const REPORT_EVERY_MS = 2_000;

function reportProgress({ world, err }: Cli, json: boolean): MoveProgress {
  let last: MoveStep | null = null;
  let reportedMs = -Infinity;
  return ({ step, copying }) => {
    const nowMs = world.monotonicMs();
    if (step === last && nowMs - reportedMs < REPORT_EVERY_MS) return;
    last = step;
    reportedMs = nowMs;
    if (json) return err(`${JSON.stringify(asJson(step, copying))}\n`);
    err(`${STEP_TEXTS[step]}${copying === undefined ? '' : progressText(copying)}\n`);
  };
}

function progressText({ table, nth, ofTables, bytes }: CopyProgress): string {
  return ` ${table} (table ${nth} of ${ofTables}): ${megabytes(bytes)} so far`;
}

function asJson(step: MoveStep, copying: CopyProgress | undefined): object {
  if (copying === undefined) return { step };
  const { table, nth, ofTables, bytes } = copying;
  return { step, table, nth, of_tables: ofTables, bytes };
}
