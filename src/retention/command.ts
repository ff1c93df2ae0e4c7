/** `letterhaus retention`: shows why old data is not removed yet, and confirms its removal. */
import type { Command } from 'commander';
import type { RetentionState } from '../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions, apiRunnable } from '../cli/api.ts';
import { type Cli, confirmed, type CommandResult } from '../cli/command.ts';
import { shortTime } from '../cli/table.ts';

export function describeRetention(retention: Command, cli: Cli): void {
  retention.enablePositionalOptions();
  apiRunnable(retention, cli, {
    examples: ['retention', 'retention confirm --yes'],
    environment: 'none',
    run: showRetention,
  });
  apiCommand(retention, cli, {
    name: 'confirm',
    about: 'let the service remove all old data that is due, at its next check',
    examples: ['retention confirm --yes'],
    environment: 'none',
    run: confirmRetention,
  }).option('--yes', 'do not ask for confirmation');
}

async function showRetention({ client }: Api): Promise<CommandResult> {
  const state = await client.operator.retention();
  const text = [
    `Content is kept for ${state.content}, metadata for ${state.metadata}.`,
    `Last check: ${shortTime(state.ran_at)}.`,
    ...explainDelays(state),
  ].join('\n');
  return { data: state, text };
}

function explainDelays(state: RetentionState): string[] {
  const { held_until: until, clock_moved_s: movedS, waiting } = state;
  const lines: string[] = [];
  if (until !== null && movedS !== null) {
    const hours = Math.round(Math.abs(movedS) / 3600);
    const direction = movedS < 0 ? 'back' : 'forward';
    lines.push(
      `Nothing is removed until ${shortTime(until)}: the clock of the database moved ${direction} by ${hours} hours.`,
    );
  }
  if (waiting.length > 0) {
    lines.push(
      `More weeks are due than the daily limit; these wait (their first days): ${waiting.join(', ')}.`,
    );
  }
  if (lines.length === 0) return ['Nothing waits for a confirmation.'];
  return [...lines, 'To remove what is due now: letterhaus retention confirm'];
}

async function confirmRetention(
  { cli, client }: Api,
  { yes }: ApiOptions & { yes?: true },
): Promise<CommandResult> {
  const refusal = await confirmed(cli, yes, {
    needs: 'Removed mail cannot be restored; confirm with --yes.',
    asks: 'Remove all mail that is past its retention permanently?',
    otherwise: 'Nothing was confirmed.',
  });
  if (refusal !== null) return refusal;
  return {
    data: await client.operator.confirmRetention(),
    text: 'The running service removes what is due at its next check, within ten minutes.',
  };
}
