/**
 * `letterhaus release`: ends the hold of a restored installation. `--dry-run` shows first which mail would be sent, and
 * which mail the lost machine may have sent after the backup.
 */
import { type Command } from 'commander';
import type { InstallationHold } from '../../../sdk/src/api.ts';
import { type Api, type ApiOptions, apiRunnable } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';

const ROWS_MAX = 20;

export function describeRelease(release: Command, cli: Cli): void {
  apiRunnable(
    release
      .option('--dry-run', 'show what would be sent, and release nothing')
      .option('--except-in-doubt', 'keep mail on hold that the lost machine may have sent'),
    cli,
    {
      examples: ['release --dry-run', 'release --except-in-doubt', 'release'],
      environment: 'none',
      run,
    },
  );
}

type Options = ApiOptions & { dryRun?: true; exceptInDoubt?: true };

async function run({ cli, client }: Api, options: Options): Promise<CommandResult> {
  if (options.dryRun === true) {
    const hold = await client.operator.hold();
    return { data: hold, text: holdText(cli, hold) };
  }
  const released = await client.operator.release({ except_in_doubt: options.exceptInDoubt });
  const { released: count, held_back: inDoubt } = released;
  const lines = [`Released: nodes start sending within seconds. ${count} recipients wait.`];
  if (inDoubt > 0) {
    lines.push(
      `${inDoubt} recipients in doubt stay on hold in the queue:`,
      `  ${cli.program} queue release --email <id>   sends one, possibly a second time`,
    );
  }
  return { data: released, text: lines.join('\n') };
}

function holdText(cli: Cli, hold: InstallationHold): string {
  const { since, backup_taken_at: takenAt, mail, webhooks, in_doubt: inDoubt } = hold;
  const lines = [
    `On hold since ${shortTime(since)}, restored from a backup of ${shortTime(takenAt)}.`,
    '',
    table(cli, {
      columns: [{ heading: 'PROJECT', cut: 1 }, 'ENVIRONMENT', 'IN DOUBT', 'NOT SENT', 'ON HOLD'],
      rows: mail.map(({ project, environment, in_doubt: doubtful, unsent, held }) => [
        project,
        environment,
        String(doubtful),
        String(unsent),
        String(held),
      ]),
      none: 'No mail waits.',
    }),
    '',
    `${webhooks} webhooks wait. Endpoints recognize those posted before by their id.`,
  ];
  if (inDoubt.length === 0) return lines.join('\n');
  const firstRows = inDoubt.slice(0, ROWS_MAX);
  const omitted = inDoubt.length - firstRows.length;
  lines.push(
    '',
    'In doubt: mail that was due at the time of the backup or since. The lost machine may have sent it.',
    table(cli, {
      columns: ['EMAIL', { heading: 'TO', cut: 1 }, 'DUE'],
      rows: firstRows.map(({ email_id: id, to, due_at: dueAt }) => [id, to, shortTime(dueAt)]),
      none: '',
    }),
    ...(omitted > 0 ? [`… and ${omitted} more (--json lists them)`] : []),
  );
  return lines.join('\n');
}
