/**
 * Creates the cluster of a data directory from a base backup and WAL, recovered to a point in time.
 *
 * Like a new cluster (cluster.ts), it is made beside `pg/` and renamed once it is complete. An interruption leaves the
 * data directory without a database. Its note (database/server/database-note.ts) then keeps the next start from
 * creating an empty one.
 */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { writeDatabaseNote } from '../server/database-note.ts';
import { DEFAULT_SEARCH, findEngine, installEngine } from './binaries.ts';
import {
  clusterMajor,
  createStagingDir,
  publishCluster,
  removeUnfinished,
  writeConfig,
} from './cluster.ts';
import { changeOwnerOfTree } from './folders.ts';
import { CLOSED_PARENT_HOME, prepareDataDir, prepareLayout, type Layout } from './layout.ts';
import { takeLock } from './lock.ts';
import { socketAddress, commandLine, readLogFrom, stopPostmaster } from './postmaster.ts';
import type { Postmaster, ServerSetup } from './postmaster.ts';
import { EngineProblem } from './problem.ts';
import type { Clock } from './process.ts';
import { startPostmaster } from './running-server.ts';
import { DAY_MS, GIB } from '../../lib/units.ts';

export type Recovery = {
  dataDir: string;
  world: Clock;
  log: (line: string) => void;
  /** Major version of the server that made the base backup. */
  major: number;
  targetTime: string;
  /** Puts the files of the base backup and the WAL into the empty folder of a cluster. */
  restoreFiles: (pgDir: string) => Promise<void>;
  onReplayed: (lsn: string) => void;
  /** Changes the recovered database before it becomes the one of the data directory. */
  adjust: (address: pg.ClientConfig) => Promise<void>;
};

/** The WAL of a week may have to be replayed. */
const START_TIMEOUT_MS = 7 * DAY_MS;
const REPORT_EVERY_MS = 2_000;
const TAIL_BYTES = 1_000;
const SIZING = { connections: 0, memoryBytes: GIB, diskBytes: 25 * GIB };

/** @throws EngineProblem when there is a database, or the server is of another major version */
export async function recoverCluster(recovery: Recovery): Promise<void> {
  const dataDir = prepareDataDir(recovery.dataDir);
  const lock = await takeLock(dataDir, recovery.world);
  try {
    const layout = prepareLayout(dataDir, CLOSED_PARENT_HOME, recovery.log);
    const source = findEngine(DEFAULT_SEARCH, recovery.major);
    requireRecoverable(layout, { ...recovery, found: source.major });
    // From here on, no start creates an empty database in this directory.
    writeDatabaseNote(dataDir, 'embedded');
    removeUnfinished(layout.databaseDir);
    const binDir = await installEngine(source, layout.databaseDir);
    await recoverInto(layout, { binDir, recovery, version: source.version });
  } finally {
    lock.release();
  }
}

async function recoverInto(layout: Layout, context: RecoveryContext): Promise<void> {
  const { recovery } = context;
  const newPgDir = createStagingDir(layout);
  try {
    await recovery.restoreFiles(newPgDir);
    writeFileSync(join(newPgDir, 'recovery.signal'), '', { mode: 0o600 });
    if (layout.owner) changeOwnerOfTree(newPgDir, layout.owner);
    const setup = recoverySetup({ ...layout, pgDir: newPgDir }, context);
    const postmaster = await replayWal(setup, recovery.onReplayed);
    try {
      await recovery.adjust(socketAddress(layout.socketDir));
    } finally {
      await stopPostmaster(postmaster, 'fast', recovery.world);
    }
    await publishCluster(layout, newPgDir);
  } catch (error) {
    removeUnfinished(layout.databaseDir);
    throw error;
  }
}

/** Starts the server, which accepts connections when the replay has ended. */
async function replayWal(
  setup: ServerSetup,
  onReplayed: (lsn: string) => void,
): Promise<Postmaster> {
  const { logFile } = setup.layout;
  let from = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  const timer = setInterval(() => {
    const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
    if (size <= from) return;
    const lines = readLogFrom(logFile, Math.max(from, size - TAIL_BYTES));
    from = size;
    const lsn = [...lines.matchAll(/current LSN: ([0-9A-F]+\/[0-9A-F]+)/g)].at(-1)?.[1];
    if (lsn !== undefined) onReplayed(lsn);
  }, REPORT_EVERY_MS);
  try {
    return await startPostmaster(setup);
  } finally {
    clearInterval(timer);
  }
}

function requireRecoverable(
  { pgDir, dataDir }: Layout,
  { major, found }: { major: number; found: number },
): void {
  if (clusterMajor(pgDir) !== null) {
    throw new EngineProblem(
      'other-major',
      `The data directory ${dataDir} has a database, and a restore needs an empty one: set LETTERHAUS_DATA_DIR to a new folder.`,
    );
  }
  if (found === major) return;
  throw new EngineProblem(
    'other-major',
    `The archive was made by PostgreSQL ${major}, and this Letterhaus runs PostgreSQL ${found}: restore it with the Letterhaus that made it.`,
  );
}

type RecoveryContext = { binDir: string; recovery: Recovery; version: string };

/**
 * All WAL is in pg_wal already, so the command that would fetch more always fails. The database is reachable once the
 * recovery has ended: a hot standby would need the connection limits of the lost server.
 */
function recoverySetup(
  layout: Layout,
  { binDir, recovery, version }: RecoveryContext,
): ServerSetup {
  const config = writeConfig(layout.databaseDir, SIZING);
  const command = commandLine(layout, version, config);
  const settings = {
    restore_command: 'exit 1',
    // The server reads it before it knows the names of time zones, including Z.
    recovery_target_time: recovery.targetTime.replace('T', ' ').replace('Z', '+00'),
    recovery_target_action: 'promote',
    recovery_target_timeline: 'current',
    hot_standby: 'off',
    log_startup_progress_interval: '2s',
  };
  const recoveryArgs = Object.entries(settings).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  return {
    ...command,
    layout,
    program: join(binDir, 'postgres'),
    args: [...command.args, ...recoveryArgs],
    log: recovery.log,
    clock: recovery.world,
    stalePidWaitMs: 0,
    signal: new AbortController().signal,
    startTimeoutMs: START_TIMEOUT_MS,
  };
}
