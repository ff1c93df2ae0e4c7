/** `letterhaus status`: shows whether mail is accepted and sent, the nodes, the queue, and what needs attention. */
import type { Command } from 'commander';
import { type Api, apiRunnable } from '../cli/api.ts';
import type { Cli, CommandResult } from '../cli/command.ts';
import { facts } from '../cli/table.ts';
import { backupText } from './attention-command.ts';

export function describeStatus(status: Command, cli: Cli): void {
  apiRunnable(status, cli, {
    examples: ['status', 'status --json'],
    notes: 'The exit code is 1 when mail is not accepted or not sent.',
    environment: 'none',
    run: show,
  });
}

async function show({ client }: Api): Promise<CommandResult> {
  const status = await client.operator.status();
  const { unready, warnings, on_hold: isOnHold, nodes, queue, conditions, backup } = status;
  const isWell = unready.length === 0 && !isOnHold;
  const lines = facts([
    ['version', status.version],
    ['mail', isWell ? 'is accepted and sent' : null],
    ...unready.map(({ message }): [string, string] => ['not ready', message]),
    ['on hold', isOnHold ? 'restored, and sends nothing until `letterhaus release`' : null],
    ...warnings.map((warning): [string, string] => ['warning', warning]),
    ...nodes.map(({ host, version, workers }): [string, string] => [
      'node',
      `${host}: ${workers} ${workers === 1 ? 'worker' : 'workers'}, version ${version ?? 'unknown'}`,
    ]),
    ['queue', `${queue.waiting} recipients wait, ${queue.due} due, ${queue.held} on hold`],
    ['oldest', queue.oldest_s === 0 ? null : `due for ${queue.oldest_s} s`],
    [
      'reconciliation',
      status.is_accounted_for ? 'all mail is accounted for' : 'see `letterhaus reconcile`',
    ],
    ['attention', attentionText(conditions.length)],
    ['backup', backup && backupText(backup)],
  ]);
  return { data: status, text: lines, ...(!isWell && { exitCode: 1 as const }) };
}

function attentionText(count: number): string {
  if (count === 0) return 'nothing';
  return `${count} ${count === 1 ? 'condition' : 'conditions'}: see \`letterhaus attention\``;
}
