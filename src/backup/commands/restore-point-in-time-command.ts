/**
 * `letterhaus restore --point-in-time TIME PLACE`: restores the embedded database of an empty data directory to that
 * time, from the archive that the service keeps. The installation is on hold afterwards.
 */
import { restoredOutcome } from './restored.ts';
import { archiveAt } from '../places/locate.ts';
import { megabytes, PlaceProblem } from '../places/place.ts';
import {
  fillCluster,
  type FillProgress,
  keysAt,
  type Plan,
  planRestore,
} from '../point-in-time/restore.ts';
import { replay, type Replayed } from '../restore.ts';
import type { Opening } from '../sealed-key.ts';
import type { Config } from '../../config/config.ts';
import { countMail, settleRecovered } from '../store/hold.ts';
import { replayJournal } from '../store/journal.ts';
import { readFreeBytes } from '../../database/server/capacity.ts';
import { clientQueries, connectAsOwner, type DatabaseAddress } from '../../database/database.ts';
import { prepareDataDir } from '../../database/embedded/layout.ts';
import { EngineProblem } from '../../database/embedded/problem.ts';
import { recoverCluster } from '../../database/embedded/recover.ts';
import { migrate } from '../../migration/migrate.ts';
import { DatabaseUnusable } from '../../database/server/unusable-error.ts';
import { SCHEMA_KNOWN } from '../../migration/schema-version.ts';
import { readSecretKey, storeRestoredSecretKey } from '../../secrets/secret-key-file.ts';
import { type Cli, type Outcome, usageFailure } from '../../cli/command.ts';

type Options = { at: Date; config: Config; opening: Opening };

type Settled = { emails: number; open: number; replayed: Replayed };

export async function restorePointInTime(
  cli: Cli,
  archive: string,
  { at, config, opening }: Options,
): Promise<Outcome> {
  if (config.databaseUrl !== null) {
    return usageFailure(
      'A restore to a point in time makes an embedded database. Unset DATABASE_URL.',
    );
  }
  const place = archiveAt(archive, { access: config.backup.s3, world: cli.world });
  const plan = await planRestore(place, at);
  requireKnownSchema(plan);
  const present = config.secretKey ?? readSecretKey(config.dataDir);
  const secretKey = await keysAt(plan, { opening, present });
  const dataDir = prepareDataDir(config.dataDir);
  const onProgress = reporting(cli);
  let settled: Settled | null = null;
  try {
    await recoverCluster({
      dataDir,
      world: cli.world,
      log: (line) => cli.err(`${line}\n`),
      major: parseInt(plan.base.postgres),
      targetTime: at.toISOString(),
      restoreFiles: async (pgDir) => {
        await requireSpace(dataDir, plan);
        await fillCluster(plan, pgDir, onProgress);
        cli.err('PostgreSQL replays the WAL.\n');
      },
      onReplayed: (lsn) => cli.err(`replayed up to ${lsn}\n`),
      adjust: async (address) => {
        settled = await settle(cli, address, { plan, config });
        if (config.secretKey === null) storeRestoredSecretKey(dataDir, secretKey);
      },
    });
  } catch (error) {
    const isOperators = error instanceof EngineProblem || error instanceof DatabaseUnusable;
    if (isOperators) return usageFailure(error.message);
    throw error;
  }
  return restored(cli, plan, settled!);
}

function requireKnownSchema({ base: { schema, version } }: Plan): void {
  if (schema <= SCHEMA_KNOWN) return;
  throw new DatabaseUnusable(
    `The archive was made by a newer version of Letterhaus (${version}, schema ${schema}), and this one knows schema ${SCHEMA_KNOWN}. Restore it with the newer version.`,
  );
}

async function requireSpace(dataDir: string, { bytes }: Plan): Promise<void> {
  const free = await readFreeBytes(dataDir);
  if (free >= bytes) return;
  throw new PlaceProblem(
    `There is too little space in ${dataDir}: the restore takes ${megabytes(bytes)}, and ${megabytes(free)} are free.`,
  );
}

/** Sets the hold first: the database must not send before it is set. */
async function settle(
  cli: Cli,
  address: DatabaseAddress,
  { plan: { at, place }, config }: { plan: Plan; config: Config },
): Promise<Settled> {
  const client = await connectAsOwner(address, 'restore');
  try {
    const db = clientQueries(client);
    await db.query('set statement_timeout = 0');
    await settleRecovered(db, at.toISOString());
    await migrate(address, {
      nowMs: cli.world.now(),
      acceptAnyDurability: config.acceptDatabaseDurability,
      log: (sentence) => cli.err(`${sentence}\n`),
    });
    const rows = place.journal.read(at.getTime());
    const replayed = await replay({ replay: (batch) => replayJournal(db, batch) }, rows);
    await db.query('analyze');
    return { ...(await countMail(db)), replayed };
  } finally {
    await client.end();
  }
}

function restored(
  { program }: Cli,
  { at, base: { version } }: Plan,
  { emails, open, replayed: { suppressions, keys } }: Settled,
): Outcome {
  const backup = { takenAt: at.toISOString(), open, version, rows: { emails }, emails };
  return restoredOutcome(program, backup, { suppressions, keys });
}

const REPORT_EVERY_MS = 2_000;

function reporting({ world, err }: Cli): FillProgress {
  let reportedMs = world.monotonicMs();
  return ({ step, bytes }) => {
    if (world.monotonicMs() - reportedMs < REPORT_EVERY_MS) return;
    reportedMs = world.monotonicMs();
    err(`${step === 'wal' ? 'WAL' : 'files'}: ${megabytes(bytes)} written\n`);
  };
}
