/** `letterhaus retention`: shows what the removal of old data waits for, and confirms it. */
import type { Command } from 'commander';
import { addCommand, type Cli, type Outcome, runnable, usageFailure } from '../cli/command.ts';
import { shortTime } from '../cli/table.ts';
import { withStore } from '../cli/store.ts';
import { showPeriod } from '../core/retention.ts';
import { confirmRemoval, readRetentionState, type RetentionState } from './clock-store.ts';

export function describeRetention(retention: Command, cli: Cli): void {
  retention.enablePositionalOptions();
  runnable(retention, cli, { examples: ['retention', 'retention confirm --yes'], run: show });
  addCommand(retention, cli, {
    name: 'confirm',
    about: 'let the service remove all that is due, at its next check',
    examples: ['retention confirm --yes'],
    run: confirm,
  }).option('--yes', 'do not ask for confirmation');
}

function show(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const { contentH, metadataH } = config.retention;
    const state = await readRetentionState(db);
    const { ranAt, hold, waiting } = state;
    return {
      data: {
        object: 'retention',
        content: showPeriod(contentH),
        metadata: showPeriod(metadataH),
        ran_at: ranAt,
        held_until: hold?.until ?? null,
        waiting,
      },
      text: [
        `Content is kept for ${showPeriod(contentH)}, metadata for ${showPeriod(metadataH)}.`,
        `Last check: ${shortTime(ranAt)}.`,
        ...reasons(state),
      ].join('\n'),
    };
  });
}

function reasons({ hold, waiting }: RetentionState): string[] {
  const lines: string[] = [];
  if (hold !== null) {
    const hours = Math.round(Math.abs(hold.movedS) / 3600);
    const direction = hold.movedS < 0 ? 'back' : 'forward';
    lines.push(
      `Nothing is removed until ${shortTime(hold.until)}: the clock of the database moved ${direction} by ${hours} hours.`,
    );
  }
  if (waiting.length > 0) {
    lines.push(
      `More is due than is removed in a day; these weeks wait (their first days): ${waiting.join(', ')}.`,
    );
  }
  if (lines.length === 0) return ['Nothing waits for a confirmation.'];
  return [...lines, 'To remove what is due now: letterhaus retention confirm'];
}

function confirm(cli: Cli, { yes }: { yes?: true }): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    if (yes !== true) {
      if (cli.confirm === undefined)
        return usageFailure('Removed mail cannot be restored; confirm with --yes.');
      if (!(await cli.confirm('Remove all mail that is past its retention permanently?'))) {
        return { failed: 'Nothing was confirmed.', code: 'usage_error', exitCode: 1 };
      }
    }
    await confirmRemoval(db);
    return {
      data: { object: 'retention_confirmed' },
      text: 'The running service removes what is due at its next check, within ten minutes.',
    };
  });
}
