/**
 * Reports what an upgrade to this version would do to the running installation. Everything is read in one session that
 * cannot write. cli/commands/upgrade-check-command.ts prints it; docs/upgrading.md explains it.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import packageFile from '../../package.json' with { type: 'json' };
import { backupPlaceName } from '../backup/before-migration.ts';
import { isInBucket } from '../backup/places/bucket-url.ts';
import { folderPlace } from '../backup/places/folder-place.ts';
import { megabytes, backupTimeMs } from '../backup/places/backup-place.ts';
import { readFreeBytes, findLocalDataDirectory } from '../database/server/capacity.ts';
import type { Queryable } from '../database/database.ts';
import { DEFAULT_SEARCH, findEngine } from '../database/embedded/binaries.ts';
import { requireMajor } from '../database/embedded/cluster.ts';
import { refuseServer, readVersion } from '../migration/migrate.ts';
import { type Migration, readMigrationsAfter, type TableEffect } from '../migration/effects.ts';
import { MIGRATIONS_DIR, findOutdatedProblem, SCHEMA_KNOWN } from '../migration/schema-version.ts';
import * as facts from '../migration/upgrade-facts.ts';
import { refuseUnusable } from '../database/server/move-marks.ts';
import { checkSecretKey } from '../secrets/key-check-store.ts';
import { readInstanceId } from '../secrets/secret-key-file.ts';
import type { Cli } from './command.ts';
import { type NodeState, findRunningNodes } from '../operator/running-nodes.ts';
import type { ConfiguredDatabase } from './store.ts';
import { DAY_MS, MIB } from '../lib/units.ts';

export type MigrationReport = Migration & {
  /** Its existing tables. */
  tables: (TableEffect & facts.TableSize)[];
  /** Bytes of the tables that it reads or writes as a whole. */
  workBytes: number;
};

export type NodeReport = NodeState & {
  /** The node does not know the schema that the upgrade will require, so it ends. */
  ends: boolean;
  /** The node of the data directory of this command. */
  isOwn: boolean;
};

export type LastBackup = { at: Date; place: string };

export type UpgradeReport = {
  version: string;
  server: facts.ServerFacts;
  schema: { present: number; known: number };
  migrations: MigrationReport[];
  nodes: NodeReport[];
  backup: LastBackup | null;
  /** `freeBytes` is null when the disk is not visible from here. */
  space: { neededBytes: number; freeBytes: number | null };
  /** Sentences about what to do before the upgrade. */
  attention: string[];
};

export type UpgradeOptions = {
  /** The operator has a backup of another kind. */
  ownBackup?: true;
};

export class NothingToUpgrade extends Error {}

type Reading = {
  db: Queryable;
  cli: Cli;
  database: ConfiguredDatabase;
  options: UpgradeOptions;
};

/** @throws NothingToUpgrade, RefusedDatabase for a database that was moved or is incomplete, DatabaseUnavailable */
export async function reportUpgrade(reading: Reading): Promise<UpgradeReport> {
  const { db } = reading;
  await refuseUnusable(db);
  const present = await readVersion(db);
  if (present === 0) throw new NothingToUpgrade();
  const installation = await facts.readInstallation(db);
  const server = await facts.readServer(db);
  const migrations = await sizedMigrations(db, readMigrationsAfter(present, MIGRATIONS_DIR));
  const required = Math.max(
    installation.schemaRequired,
    ...migrations.map(({ schemaRequired }) => schemaRequired ?? 0),
  );
  const nodes = await reportNodes(reading, required);
  const backup = await lastBackup(reading, installation);
  const neededBytes = migrations.reduce((sum, { workBytes }) => sum + workBytes, 0);
  const folder = await findLocalDataDirectory(db);
  const space = { neededBytes, freeBytes: folder === null ? null : await readFreeBytes(folder) };
  const attention = [
    ...(await whyRefused(reading, { server, required: installation.schemaRequired })),
    ...adviseSchema(present),
    ...adviseNodes(nodes),
    ...(await adviseBackup(reading, backup)),
    ...adviseWork(migrations),
    ...adviseSpace(space),
    ...(await adviseBackupFirst(reading, { migrations, bytes: server.bytes })),
  ];
  const schema = { present, known: SCHEMA_KNOWN };
  const { version } = packageFile;
  return { version, server, schema, migrations, nodes, backup, space, attention };
}

/** A rewrite needs the bytes of a table twice: in the new file and in the WAL. */
const SPACE_OF_REWRITE = 2;

async function sizedMigrations(
  db: Queryable,
  pending: readonly Migration[],
): Promise<MigrationReport[]> {
  const sizes = await facts.readTableSizes(
    db,
    pending.flatMap(({ effects }) => effects),
  );
  return pending.map((migration) => {
    const tables = migration.effects.flatMap((effect) => {
      const size = sizes.get(effect.table);
      return size === undefined ? [] : [{ ...effect, ...size }];
    });
    const workBytes = tables
      .map(({ rewrites, readsAll, changesRows, bytes }) => {
        if (rewrites) return bytes * SPACE_OF_REWRITE;
        return readsAll || changesRows ? bytes : 0;
      })
      .reduce((sum, bytes) => sum + bytes, 0);
    return { ...migration, tables, workBytes };
  });
}

async function reportNodes(
  { db, cli: { world }, database }: Reading,
  required: number,
): Promise<NodeReport[]> {
  const own = readInstanceId(database.config.dataDir);
  return (await findRunningNodes(db, world)).map((node) => ({
    ...node,
    ends: node.schemaKnown < required,
    isOwn: node.instance === own,
  }));
}

/** Returns the newest backup in the folder of backups, or the recorded one of `letterhaus backup`, if it is newer. */
async function lastBackup(
  { database }: Reading,
  { lastBackupAt, lastBackupPlace }: facts.InstallationFacts,
): Promise<LastBackup | null> {
  const folder = backupPlaceName(database.config);
  // A bucket may not answer, so the recorded backup suffices there.
  const list = isInBucket(folder) ? Promise.resolve([]) : folderPlace(folder).list();
  const newest = (await list.catch(() => [])).at(-1);
  const madeMs = newest === undefined ? null : backupTimeMs(newest);
  const inFolder = madeMs === null ? null : { at: new Date(madeMs), place: newest! };
  const noted =
    lastBackupAt === null ? null : { at: lastBackupAt, place: lastBackupPlace ?? 'not known' };
  if (inFolder === null || noted === null) return inFolder ?? noted;
  return inFolder.at > noted.at ? inFolder : noted;
}

type Standing = { server: facts.ServerFacts; required: number };

/** Returns every reason for which a start of this version would exit. */
async function whyRefused(reading: Reading, { server, required }: Standing): Promise<string[]> {
  const { db, database } = reading;
  const { config } = database;
  const checks = [
    () => refuseServer(db, { acceptAnyDurability: config.acceptDatabaseDurability }),
    () => checkSecretKey(db, { dataDir: config.dataDir, configured: config.secretKey }),
  ];
  const refusals: string[] = [];
  for (const check of checks) {
    await check().catch((error: Error) => refusals.push(error.message));
  }
  const outdated = findOutdatedProblem(required);
  if (outdated !== null) refusals.push(outdated);
  if (config.databaseUrl === null) refusals.push(...engineRefusals(server));
  return refusals;
}

/** Returns a sentence if the engine of this version cannot run the cluster; else nothing. */
function engineRefusals({ dataDirectory, major }: facts.ServerFacts): string[] {
  if (dataDirectory === null) return [];
  try {
    requireMajor(dataDirectory, findEngine(DEFAULT_SEARCH, major).major);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

function adviseSchema(present: number): string[] {
  if (present <= SCHEMA_KNOWN) return [];
  return [
    `This version knows schema ${SCHEMA_KNOWN} and the database has ${present}: starting this version is a downgrade (docs/upgrading.md).`,
  ];
}

function adviseNodes(nodes: readonly NodeReport[]): string[] {
  const ending = nodes.filter(({ ends, isRunning, isOwn }) => ends && isRunning && !isOwn);
  if (ending.length === 0) return [];
  const hosts = [...new Set(ending.map(({ host }) => host))].join(', ');
  return [
    `The version of the nodes on ${hosts} cannot use the migrated schema: they finish their work and exit. Install this version there first.`,
  ];
}

async function adviseBackup(
  { db, cli, options }: Reading,
  backup: LastBackup | null,
): Promise<string[]> {
  if (options.ownBackup === true) return [];
  const failed = await facts.readBackupFailure(db);
  if (failed !== null) return [`${failed.replace(/\.?$/, '.')} Make one before the upgrade.`];
  if (backup === null) {
    return [
      'No backup is known: make one with `letterhaus backup` (docs/backup.md), or add --own-backup if you have one of another kind.',
    ];
  }
  const days = (cli.world.now() - backup.at.getTime()) / DAY_MS;
  if (days <= 1) return [];
  return [
    `The last backup is ${Math.floor(days * 24)} hours old: make one with \`letterhaus backup\` (docs/backup.md).`,
  ];
}

/** Limit on the bytes that migrations process within a moment. */
export const MOMENT_BYTES = 64 * MIB;

function adviseWork(migrations: readonly MigrationReport[]): string[] {
  return migrations
    .filter(({ workBytes }) => workBytes > MOMENT_BYTES)
    .map(
      ({ file, workBytes }) =>
        `Migration ${file} reads or writes ${megabytes(workBytes)}, and blocks its tables meanwhile: upgrade when little is sent.`,
    );
}

function adviseSpace({ neededBytes, freeBytes: free }: UpgradeReport['space']): string[] {
  if (free === null || free >= neededBytes) return [];
  return [
    `The disk of the database has ${megabytes(free)} free, and the migrations may take ${megabytes(neededBytes)}.`,
  ];
}

/** @param database `bytes` is its size: a compressed backup without indexes is smaller */
async function adviseBackupFirst(
  { database: { config } }: Reading,
  database: { migrations: readonly Migration[]; bytes: number },
): Promise<string[]> {
  const { migrations, bytes } = database;
  if (migrations.every(({ backupReason }) => backupReason === null)) return [];
  if (config.migrateWithoutBackup) {
    return [
      'LETTERHAUS_MIGRATE_WITHOUT_BACKUP is set: the backup that a migration needs is not made. Make one, and unset it after the upgrade.',
    ];
  }
  const folder = backupPlaceName(config);
  if (isInBucket(folder)) return [];
  const free = await readFreeBytes(existingPart(folder));
  if (free >= bytes) return [];
  return [
    `The backup that a migration needs may take ${megabytes(bytes)}, and ${folder} has ${megabytes(free)} free.`,
  ];
}

function existingPart(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : existingPart(dirname(folder));
}
