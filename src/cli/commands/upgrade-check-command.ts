/**
 * `letterhaus upgrade-check`: run with the new version beside the running installation, it shows what the upgrade would
 * do, and changes nothing. docs/upgrading.md is the guide.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { megabytes } from '../../backup/places/backup-place.ts';
import { readConfig } from '../../config/config.ts';
import { DatabaseUnavailable, sqlStateOf } from '../../database/database.ts';
import { withReadOnlySession } from '../../migration/upgrade-facts.ts';
import {
  type Cli,
  type Failure,
  isFailure,
  type CommandResult,
  runnable,
  usageFailure,
} from '../command.ts';
import { withAddress } from '../store.ts';
import { table } from '../table.ts';
import { usableVariables } from '../usable-variables.ts';
import {
  type MigrationReport,
  MOMENT_BYTES,
  type NodeReport,
  NothingToUpgrade,
  reportUpgrade,
  type UpgradeOptions,
  type UpgradeReport,
} from '../upgrade-report.ts';

export function describeUpgradeCheck(command: Command, cli: Cli): void {
  runnable(
    command.option('--own-backup', 'you have a backup made by other means: do not ask for one'),
    cli,
    {
      examples: ['upgrade-check', 'upgrade-check --json'],
      notes: `Run it with the new version, with the variables of the service. It changes nothing.
The exit code is 0 when nothing prevents the upgrade, 1 when something needs attention, 2 when the
database cannot be read.`,
      run,
    },
  );
}

async function run(cli: Cli, options: UpgradeOptions): Promise<CommandResult> {
  const { problems, env } = usableVariables(cli.env);
  const read = readConfig(env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const { databaseUrl, dataDir } = read.config;
  if (databaseUrl === null && !existsSync(join(dataDir, 'lock'))) {
    return usageFailure(
      `There is no installation in ${dataDir}: set the variables that the service has, LETTERHAUS_DATA_DIR or DATABASE_URL among them.`,
    );
  }
  const outcome = await withAddress({ ...cli, env }, (database) =>
    withReadOnlySession(database.address, async (db) => {
      try {
        const report = await reportUpgrade({ db, cli, database, options });
        return success(cli, { ...report, attention: [...problems, ...report.attention] });
      } catch (error) {
        if (error instanceof NothingToUpgrade) {
          return usageFailure('The database is empty: the first start creates its schema.');
        }
        if (error instanceof DatabaseUnavailable || sqlStateOf(error) === null) throw error;
        return usageFailure(`The database cannot be read: ${(error as Error).message}.`);
      }
    }),
  );
  return isFailure(outcome) ? unreadable(outcome) : outcome;
}

/** Exit code 1 means that something needs attention, so a database that cannot be read has another. */
function unreadable(failure: Failure): Failure {
  return { ...failure, exitCode: 2 };
}

function success(cli: Cli, report: UpgradeReport): CommandResult {
  return {
    data: toJson(report),
    text: textOf(cli, report),
    ...(report.attention.length > 0 && { exitCode: 1 as const }),
  };
}

function toJson({
  version,
  server,
  schema,
  migrations,
  nodes,
  backup,
  space,
  attention,
}: UpgradeReport) {
  return {
    object: 'upgrade_check',
    version,
    postgres: server.version,
    database_bytes: server.bytes,
    schema,
    migrations: migrations.map((migration) => ({
      file: migration.file,
      about: migration.summary,
      needs_backup: migration.backupReason,
      schema_required: migration.schemaRequired,
      work_bytes: migration.workBytes,
      tables: migration.tables.map(({ table: name, rows, bytes, ...effect }) => ({
        name,
        rows,
        bytes,
        blocks: effect.blocks,
        rewrites: effect.rewrites,
        reads_all: effect.readsAll,
        changes_rows: effect.changesRows,
      })),
    })),
    nodes: nodes.map(({ host, instance, version: runs, schemaKnown, workers, ...node }) => ({
      host,
      instance,
      version: runs,
      schema_known: schemaKnown,
      workers,
      running: node.isRunning,
      ends: node.ends,
      own: node.isOwn,
    })),
    last_backup: backup && { at: backup.at, place: backup.place },
    room: { needed_bytes: space.neededBytes, free_bytes: space.freeBytes },
    attention,
  };
}

function textOf(cli: Cli, report: UpgradeReport): string {
  const { version, server, schema, migrations, nodes, backup, attention } = report;
  const { present, known } = schema;
  const blocks = [
    `Letterhaus ${version} beside a database of ${megabytes(server.bytes)} on PostgreSQL ${server.version}.`,
    migrations.length === 0
      ? `No migration runs: the schema is at ${present}, and this version knows ${known}.`
      : [
          `The first start migrates the schema from ${present} to ${known}:`,
          ...migrations.map(migrationText),
        ].join('\n'),
    nodesText(cli, nodes),
    backup === null
      ? 'Last backup: none is known.'
      : `Last backup: ${backup.at.toISOString()}, ${backup.place}`,
    attention.length === 0
      ? 'Nothing prevents the upgrade.'
      : ['Before the upgrade:', ...attention.map((sentence) => `! ${sentence}`)].join('\n'),
  ];
  return blocks.join('\n\n');
}

function migrationText({
  file,
  summary,
  backupReason,
  tables,
  workBytes,
}: MigrationReport): string {
  const lines = [
    ...(backupReason === null ? [] : [`makes a backup first: ${backupReason}`]),
    ...tables.map((one) => tableText(one, workBytes)),
  ];
  return [`  ${file}: ${summary}`, ...lines.map((line) => `    - ${line}`)].join('\n');
}

const WAITS = { everything: 'reads and writes wait', writes: 'writes wait', nothing: '' };

function tableText(one: MigrationReport['tables'][number], workBytes: number): string {
  const { table: name, rows, bytes, blocks, rewrites, readsAll, changesRows } = one;
  const size =
    rows === null ? megabytes(bytes) : `about ${Math.round(rows)} rows, ${megabytes(bytes)}`;
  const does = [
    ...(rewrites ? ['is rewritten'] : []),
    ...(readsAll ? ['is read as a whole'] : []),
    ...(changesRows ? ['rows change'] : []),
    ...(blocks === 'nothing'
      ? []
      : [`${WAITS[blocks]}${workBytes > MOMENT_BYTES ? '' : ' for a moment'}`]),
  ];
  return `${name} (${size}): ${does.join(', ')}`;
}

function nodesText(cli: Cli, nodes: readonly NodeReport[]): string {
  return table(cli, {
    columns: [{ heading: 'NODE', cut: 1 }, 'VERSION', 'SCHEMA', 'WORKERS', 'AT THE UPGRADE'],
    rows: nodes.map((node) => [
      node.host,
      node.version ?? 'earlier',
      String(node.schemaKnown),
      String(node.workers),
      fateOf(node),
    ]),
    none: 'No node runs.',
  });
}

function fateOf({ isRunning, isOwn, ends }: NodeReport): string {
  if (!isRunning) return 'does not answer';
  if (isOwn) return 'is upgraded';
  return ends ? 'ends' : 'keeps running';
}
