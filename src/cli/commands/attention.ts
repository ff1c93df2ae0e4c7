/** `letterhaus attention`: what an operator has to act on, with since when and what to do. */
import type { Command } from 'commander';
import { type Condition, listConditions } from '../../store/operator-conditions.ts';
import { type Cli, type Outcome, runnable } from '../command.ts';
import { withStore } from '../store.ts';
import { shortTime, table } from '../table.ts';

const SHOWN_MAX = 1_000;

export function describeAttention(attention: Command, cli: Cli): void {
  runnable(attention, cli, {
    examples: ['attention', 'attention --json'],
    notes: 'The exit code is 1 when there is anything.',
    run: list,
  });
}

function list(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const open = await listConditions(db, SHOWN_MAX);
    return {
      data: { object: 'list', data: open.map(toJson), has_more: open.length === SHOWN_MAX },
      text: table(cli, {
        columns: [
          'SINCE',
          'TYPE',
          { heading: 'SUBJECT', cut: 1 },
          { heading: 'WHAT TO DO', wraps: true },
        ],
        rows: open.map(({ since, type, subject, message, remedy }) => [
          shortTime(since),
          type,
          subject,
          `${message} ${remedy}`,
        ]),
        none: 'Nothing needs attention.',
      }),
      ...(open.length > 0 && { exitCode: 1 as const }),
    };
  });
}

function toJson({ type, subject, message, remedy, details, since, lastSeen }: Condition): object {
  return { type, subject, message, remedy, details, since, last_seen: lastSeen };
}
