/** `letterhaus attention`: lists open conditions with their start and remedy. */
import type { Command } from 'commander';
import type { InstallationStatus } from '../../sdk/src/api.ts';
import { ageText } from '../backup/backup-age.ts';
import { type Api, apiRunnable, listData } from '../cli/api.ts';
import type { Cli, CommandResult } from '../cli/command.ts';
import { shortTime, table } from '../cli/table.ts';

export function describeAttention(attention: Command, cli: Cli): void {
  apiRunnable(attention, cli, {
    examples: ['attention', 'attention --json'],
    notes: 'The exit code is 1 when a condition is open.',
    environment: 'none',
    run: listAttention,
  });
}

async function listAttention({ cli, client }: Api): Promise<CommandResult> {
  const { conditions, backup: reported } = await client.operator.status();
  const backup = await withOwnBackupAccess(cli, reported);
  const lines = table(cli, {
    columns: [
      'SINCE',
      'TYPE',
      { heading: 'SUBJECT', cut: 1 },
      { heading: 'WHAT TO DO', wraps: true },
    ],
    rows: conditions.map(({ since, type, subject, message, remedy }) => [
      shortTime(since),
      type,
      subject,
      `${message} ${remedy}`,
    ]),
    none: 'Nothing needs attention.',
  });
  return {
    data: { ...listData(conditions), ...(backup && { backup }) },
    text: backup === null ? lines : `${backupText(backup)}\n${lines}`,
    ...(conditions.length > 0 && { exitCode: 1 as const }),
  };
}

/** Reads the backups with this command's own configuration when the worker has no access to the bucket. */
async function withOwnBackupAccess(
  { env, world }: Pick<Cli, 'env' | 'world'>,
  reported: InstallationStatus['backup'],
): Promise<InstallationStatus['backup']> {
  if (!reported?.problem || !reported.to.startsWith('s3:')) return reported;
  const { readConfig } = await import('../config/config.ts');
  const read = readConfig(env);
  if (!read.ok || read.config.backup.s3 === null) return reported;
  const { findNewestBackup, newestToWire } = await import('../backup/newest-backup.ts');
  const newest = await findNewestBackup(read.config.backup, world);
  return newest && newestToWire(newest);
}

export function backupText(backup: NonNullable<InstallationStatus['backup']>): string {
  const { to, newest, age_seconds: ageS, problem } = backup;
  if (problem !== null) return `The backups cannot be listed: ${problem}`;
  if (newest === null || ageS === null) return `There is no backup in ${to}.`;
  return `The newest backup is ${ageText(ageS * 1_000)} old: ${newest}`;
}
