/**
 * The cluster: created once by initdb, configured at every start.
 *
 * It is created beside `pg/` and renamed once it is complete, on disk and owned by its user. So an interrupted start
 * leaves nothing to repair.
 */
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  changeOwner,
  changeOwnerOfTree,
  createPrivateFolder,
  findNamedUserId,
  syncPath,
  syncTree,
} from './folders.ts';
import type { Layout } from './layout.ts';
import { killServerOf } from './pid-file.ts';
import { EngineProblem } from './problem.ts';
import { MIB } from '../../lib/units.ts';

/** Name of the bootstrap superuser, and of the service's database. */
export const SUPERUSER = 'letterhaus';

/** Leaves out the operator's PG* variables. TZ saves PostgreSQL the search for the system's time zone. */
export const CHILD_ENV = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' };

const STAGING = 'unfinished-';
const LOCAL_SETTINGS = 'postgresql.local.conf';

/** Returns the major version that created the cluster; null when there is none. */
export function clusterMajor(pgDir: string): number | null {
  const file = join(pgDir, 'PG_VERSION');
  return existsSync(file) ? parseInt(readFileSync(file, 'utf8')) : null;
}

/** @throws EngineProblem when another major version created the cluster: it has another disk format */
export function requireMajor(pgDir: string, engineMajor: number): void {
  const major = clusterMajor(pgDir);
  if (major === null || major === engineMajor) return;
  throw new EngineProblem(
    'other-major',
    `The database in ${pgDir} was made by PostgreSQL ${major}, and this Letterhaus runs PostgreSQL ${engineMajor}: start the Letterhaus that made it and run \`letterhaus move --to postgres://…\` there to an empty database of PostgreSQL ${engineMajor}; or run \`letterhaus backup\` there and \`letterhaus restore\` here, into a new LETTERHAUS_DATA_DIR.`,
  );
}

export async function ensureCluster(layout: Layout, binDir: string): Promise<void> {
  removeUnfinished(layout.databaseDir);
  if (clusterMajor(layout.pgDir) !== null) return;
  const newPgDir = createStagingDir(layout);
  await runInitdb({ layout, binDir, newPgDir: newPgDir });
  // The configuration files are outside, where the database's user cannot write.
  for (const name of readdirSync(newPgDir))
    if (name.endsWith('.conf')) removeUnlessAuto(newPgDir, name);
  if (layout.owner) changeOwnerOfTree(newPgDir, layout.owner);
  await publishCluster(layout, newPgDir);
}

/** Makes a folder beside `pg/` in which a cluster is created. Started as root, only the private group may enter it. */
export function createStagingDir({ databaseDir, owner }: Layout): string {
  const staging = mkdtempSync(join(databaseDir, STAGING));
  if (owner) {
    changeOwner(staging, { uid: 0, gid: owner.gid });
    chmodSync(staging, 0o710);
  }
  return join(staging, 'pg');
}

export async function publishCluster(
  { pgDir, databaseDir }: Layout,
  newPgDir: string,
): Promise<void> {
  await syncTree(newPgDir);
  renameSync(newPgDir, pgDir);
  await syncPath(databaseDir);
  removeUnfinished(databaseDir);
}

function removeUnlessAuto(folder: string, name: string): void {
  if (name !== 'postgresql.auto.conf') rmSync(join(folder, name));
}

type InitdbOptions = { layout: Layout; binDir: string; newPgDir: string };

/** Runs initdb. As root, it runs as a named user with the private group, so that it can enter the folder. */
async function runInitdb({ layout, binDir, newPgDir: fresh }: InitdbOptions): Promise<void> {
  const initdbUser = layout.owner && { uid: findNamedUserId(), gid: layout.owner.gid };
  mkdirSync(fresh, { mode: 0o700 });
  if (initdbUser) createPrivateFolder(fresh, initdbUser);
  // --no-sync, because the owner changes afterwards and `syncTree` follows.
  const args = ['-D', fresh, '-U', SUPERUSER, '--auth=trust', '--encoding=UTF8', '--no-locale'];
  const flags = ['--data-checksums', '--no-sync', '--no-instructions'];
  try {
    await promisify(execFile)(join(binDir, 'initdb'), [...args, ...flags], {
      cwd: '/',
      env: CHILD_ENV,
      ...initdbUser,
    });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    const output = stderr?.trim() || message;
    throw new EngineProblem(
      'start-failed',
      `The database could not be created in ${layout.databaseDir}. Fix the cause, or set DATABASE_URL. Output of initdb: ${output}`,
    );
  }
}

/** Ends a server that a killed start or restore left in a staging folder, and removes the folder. */
export function removeUnfinished(databaseDir: string): void {
  for (const name of readdirSync(databaseDir)) {
    if (!name.startsWith(STAGING)) continue;
    const folder = join(databaseDir, name);
    killServerOf(join(folder, 'pg'));
    rmSync(folder, { recursive: true, maxRetries: 20 });
  }
}

/**
 * Settings for a small machine that also runs the service, and for bursts of short commits. No lz4: a cluster must open
 * with any build of its major version, and the npm package's build has no lz4. Settings for durability are on the
 * command line (postmaster.ts).
 */
const SETTINGS = `\
# Written by Letterhaus at every start. Your own settings go into ${LOCAL_SETTINGS} beside this.
@sized
maintenance_work_mem = 64MB
random_page_cost = 1.1
jit = off
max_parallel_workers_per_gather = 0

# Commits come in bursts: few checkpoints, WAL files that are kept and used again.
synchronous_commit = on
checkpoint_timeout = 10min
min_wal_size = 256MB
wal_compression = pglz
@wal
max_logical_replication_workers = 0

# The same on every machine, whatever its locale and time zone.
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'

# No DETAIL, statement or parameter in the log: they quote rows, and rows hold addresses.
log_error_verbosity = terse
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
log_line_prefix = '%m [%p] '
log_checkpoints = off

include = '${LOCAL_SETTINGS}'
`;

/** WAL for crash recovery only, without replicas. */
const MINIMAL_WAL = 'wal_level = minimal\nmax_wal_senders = 0';

/**
 * WAL for an archive (backup/point-in-time): a connection for base backups, and a slot that keeps WAL until it is
 * archived. The slot is invalidated before it fills a tenth of the disk.
 */
function archivedWal({ diskBytes }: Sizing): string {
  return [
    'wal_level = replica',
    'max_wal_senders = 2',
    'max_replication_slots = 4',
    `max_slot_wal_keep_size = ${clamp(1_024, diskBytes / MIB / 10, 32_768)}MB`,
  ].join('\n');
}

/** Returns whether there is a replication slot. PostgreSQL does not start on minimal WAL with one. */
export function hasReplicationSlots(pgDir: string): boolean {
  const folder = join(pgDir, 'pg_replslot');
  return existsSync(folder) && readdirSync(folder).length > 0;
}

export type Sizing = {
  connections: number;
  /** Memory of the machine, or of the container if that has less. */
  memoryBytes: number;
  /** Size of the whole disk, not its free space, so that the settings are the same at each start. */
  diskBytes: number;
};

/** Connections for commands, backups, psql, and the three that PostgreSQL reserves for superusers. */
const EXTRA_CONNECTIONS = 33;
const CONNECTIONS_MIN = 100;

/**
 * Returns the settings that depend on the sizing, as lines of postgresql.conf. WAL is kept up to a 25th of the disk.
 * More WAL means fewer checkpoints, after each of which whole pages are written to the WAL. A crash recovery replays up
 * to that much: 8 GB take ten minutes at 14 MB/s, and a start waits as long (postmaster.ts).
 */
export function sizedSettings({ connections, memoryBytes, diskBytes }: Sizing): string {
  const memoryMb = Math.floor(memoryBytes / MIB);
  return [
    `max_connections = ${Math.max(CONNECTIONS_MIN, connections + EXTRA_CONNECTIONS)}`,
    `shared_buffers = ${clamp(64, memoryMb / 16, 1_024)}MB`,
    `effective_cache_size = ${clamp(256, memoryMb / 2, 65_536)}MB`,
    `max_wal_size = ${clamp(512, diskBytes / MIB / 25, 8_192)}MB`,
  ].join('\n');
}

function clamp(min: number, value: number, max: number): number {
  return Math.floor(Math.min(max, Math.max(min, value)));
}

/** Returns the memory limit. A cgroup without a limit reports 0, or more than all memory. */
export function memoryLimitBytes(totalBytes: number, constrainedBytes: number): number {
  return constrainedBytes > 0 ? Math.min(totalBytes, constrainedBytes) : totalBytes;
}

/** Allows connections through the unix socket only, whose folder has mode 0700. */
const ACCESS = '# Written by Letterhaus at every start.\nlocal all all trust\n';
/** Allows base backups, which `all` does not include. */
const REPLICATION_ACCESS = 'local replication all trust\n';

export type ClusterConfig = {
  configFile: string;
  hbaFile: string;
  identFile: string;
  /** Content of the files, which is part of the stamp of a running server. */
  text: string;
};

/** Writes the configuration. The operator's own file is only created when it is missing. */
export function writeConfig(
  databaseDir: string,
  sizing: Sizing,
  { archivesWal = false }: { archivesWal?: boolean } = {},
): ClusterConfig {
  const wal = archivesWal ? archivedWal(sizing) : MINIMAL_WAL;
  const settings = SETTINGS.replace('@sized', sizedSettings(sizing)).replace('@wal', wal);
  const access = archivesWal ? ACCESS + REPLICATION_ACCESS : ACCESS;
  const write = (name: string, text: string) => {
    const file = join(databaseDir, name);
    writeFileSync(file, text);
    chmodSync(file, 0o644); // readable by the database's user with any umask
    return file;
  };
  const local = join(databaseDir, LOCAL_SETTINGS);
  if (!existsSync(local))
    write(LOCAL_SETTINGS, '# Your own settings; Letterhaus keeps this file.\n');
  return {
    configFile: write('postgresql.conf', settings),
    hbaFile: write('pg_hba.conf', access),
    identFile: write('pg_ident.conf', ''),
    text: settings + access + readFileSync(local, 'utf8'),
  };
}
