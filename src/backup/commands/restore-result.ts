/** The closing text of a restore, from a backup or to a point in time. */
import type { ReplayCounts } from '../restore-backup.ts';
import type { CommandResult } from '../../cli/command.ts';

type RestoredBackup = {
  takenAt: string;
  version: string;
  /** Recipients without a final status. */
  open: number;
  emails: number;
  rows: Readonly<Record<string, number>>;
};

export function restoreResult(
  program: string,
  { takenAt, version, open, emails, rows }: RestoredBackup,
  { suppressions, keys }: ReplayCounts,
): CommandResult {
  const text = [
    `Restored ${emails} emails as of ${takenAt}, ${open} recipients of them open.`,
    ...(suppressions + keys > 0
      ? [`From the journal: ${suppressions} suppressions and ${keys} idempotency keys since then.`]
      : []),
    'The installation is on hold: it accepts mail, but sends nothing and posts no webhook.',
    `Start the service:   ${program} start`,
    `Preview the release: ${program} release --dry-run`,
    `Release:             ${program} release --except-in-doubt`,
  ].join('\n');
  return {
    data: {
      object: 'restore',
      taken_at: takenAt,
      version,
      open,
      rows,
      from_journal: { suppressions, idempotency_keys: keys },
    },
    text,
  };
}
