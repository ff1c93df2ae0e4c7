/**
 * `letterhaus restore --point-in-time TIME PLACE`: restores the embedded database of an empty data directory to that
 * time, from the archive that the service keeps. The installation is on hold afterwards.
 */
import { restoreResult } from './restore-result.ts';
import { requireSpace } from '../places/folder-place.ts';
import { archiveAt } from '../places/locate-place.ts';
import { megabytes } from '../places/backup-place.ts';
import {
  fillCluster,
  type FillProgress,
  secretKeysAt,
  type RestorePlan,
  planRestore,
} from '../point-in-time/read-archive.ts';
import { replayInBatches, type ReplayCounts } from '../restore-backup.ts';
import type { Opening } from '../sealed-key.ts';
import type { Config } from '../../config/config.ts';
import { countMail, putRecoveredOnHold } from '../store/hold.ts';
import { replayJournal } from '../store/journal-rows.ts';
import { clientQueries, connectAsOwner, type DatabaseAddress } from '../../database/database.ts';
import { prepareDataDir } from '../../database/embedded/layout.ts';
import { EngineProblem } from '../../database/embedded/problem.ts';
import { recoverCluster } from '../../database/embedded/recover.ts';
import { migrate } from '../../migration/migrate.ts';
import { RefusedDatabase } from '../../database/server/refused-database.ts';
import { SCHEMA_KNOWN } from '../../migration/schema-version.ts';
import { readSecretKey, storeRestoredSecretKey } from '../../secrets/secret-key-file.ts';
import {
  type Cli,
  type CommandResult,
  PROGRESS_EVERY_MS,
  usageFailure,
} from '../../cli/command.ts';
import { throttled } from '../throttled.ts';

type Options = { at: Date; config: Config; opening: Opening };

type RecoveredMail = { emails: number; open: number; replayed: ReplayCounts };

export async function restorePointInTime(
  cli: Cli,
  archive: string,
  { at, config, opening }: Options,
): Promise<CommandResult> {
  if (config.databaseUrl !== null) {
    return usageFailure(
      'A restore to a point in time makes an embedded database. Unset DATABASE_URL.',
    );
  }
  const place = archiveAt(archive, { access: config.backup.s3, world: cli.world });
  const plan = await planRestore(place, at);
  requireKnownSchema(plan);
  const present = config.secretKey ?? readSecretKey(config.dataDir);
  const secretKey = await secretKeysAt(plan, { opening, present });
  const dataDir = prepareDataDir(config.dataDir);
  const onProgress = reportProgress(cli);
  let recovered: RecoveredMail | null = null;
  try {
    await recoverCluster({
      dataDir,
      world: cli.world,
      log: (line) => cli.err(`${line}\n`),
      major: parseInt(plan.base.postgres),
      targetTime: at.toISOString(),
      restoreFiles: async (pgDir) => {
        await requireSpace(dataDir, { work: 'restore', bytes: plan.bytes });
        await fillCluster(plan, pgDir, onProgress);
        cli.err('PostgreSQL replays the WAL.\n');
      },
      onReplayed: (lsn) => cli.err(`replayed up to ${lsn}\n`),
      adjust: async (address) => {
        recovered = await settleDatabase(cli, address, { plan, config });
        if (config.secretKey === null) storeRestoredSecretKey(dataDir, secretKey);
      },
    });
  } catch (error) {
    const isOperators = error instanceof EngineProblem || error instanceof RefusedDatabase;
    if (isOperators) return usageFailure(error.message);
    throw error;
  }
  return recoveryResult(cli, plan, recovered!);
}

function requireKnownSchema({ base: { schema, version } }: RestorePlan): void {
  if (schema <= SCHEMA_KNOWN) return;
  throw new RefusedDatabase(
    `The archive was made by a newer version of Letterhaus (${version}, schema ${schema}), and this one knows schema ${SCHEMA_KNOWN}. Restore it with the newer version.`,
  );
}

/** Sets the hold first: the database must not send before it is set. */
async function settleDatabase(
  cli: Cli,
  address: DatabaseAddress,
  { plan: { at, place }, config }: { plan: RestorePlan; config: Config },
): Promise<RecoveredMail> {
  const client = await connectAsOwner(address, 'restore');
  try {
    const db = clientQueries(client);
    await db.query('set statement_timeout = 0');
    await putRecoveredOnHold(db, at.toISOString());
    await migrate(address, {
      nowMs: cli.world.now(),
      acceptAnyDurability: config.acceptDatabaseDurability,
      log: (sentence) => cli.err(`${sentence}\n`),
    });
    const rows = place.journal.read(at.getTime());
    const replayed = await replayInBatches({ replay: (batch) => replayJournal(db, batch) }, rows);
    await db.query('analyze');
    return { ...(await countMail(db)), replayed };
  } finally {
    await client.end();
  }
}

function recoveryResult(
  { program }: Cli,
  { at, base: { version } }: RestorePlan,
  { emails, open, replayed: { suppressions, keys } }: RecoveredMail,
): CommandResult {
  const backup = { takenAt: at.toISOString(), open, version, rows: { emails }, emails };
  return restoreResult(program, backup, { suppressions, keys });
}

function reportProgress({ world, err }: Cli): FillProgress {
  return throttled(PROGRESS_EVERY_MS, world, ({ step, bytes }) => {
    err(`${step === 'wal' ? 'WAL' : 'files'}: ${megabytes(bytes)} written\n`);
  });
}
