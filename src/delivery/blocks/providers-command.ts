/** `letterhaus providers`: lists the providers that refuse the mail of this service, and probes one. */
import type { Command } from 'commander';
import type { ProviderBlock } from '../../../sdk/src/api.ts';
import { type Api, apiCommand } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';

export function describeProviders(providers: Command, cli: Cli): void {
  apiCommand(providers, cli, {
    name: 'list',
    about: 'list the providers that refuse the mail of this service',
    examples: ['providers list', 'providers list --json'],
    environment: 'none',
    run: listProviderBlocks,
  });
  apiCommand(providers, cli, {
    name: 'retry',
    about: 'try one message now; if it is delivered, the block ends',
    examples: ['providers retry google'],
    environment: 'none',
    run: probeProvider,
  }).argument('<name>', 'the provider, as in the list');
}

async function listProviderBlocks({ cli, client }: Api): Promise<CommandResult> {
  const blocks = await client.operator.providerBlocks();
  const text = table(cli, {
    columns: [
      { heading: 'PROVIDER', cut: 2 },
      'REFUSES',
      'SINCE',
      'REFUSALS',
      'NEXT PROBE',
      { heading: 'REPLY', wraps: true },
    ],
    rows: blocks.data.map((block) => [
      block.provider,
      block.subject,
      shortTime(block.since),
      String(block.refusals),
      block.next_probe_in_s === null ? 'now' : `in ${block.next_probe_in_s} s`,
      replyText(block),
    ]),
    none: {
      says: 'No provider refuses the mail of this service.',
      toDo: 'To see waiting mail and why it waits',
      command: 'queue',
    },
  });
  return { data: blocks, text };
}

function replyText({ delisting_page: page, reply }: ProviderBlock): string {
  return page === null ? reply : `${reply} (delisting: ${page})`;
}

async function probeProvider(
  { client }: Api,
  _: object,
  [provider]: [string],
): Promise<CommandResult> {
  const probe = await client.operator.probeProvider(provider);
  const text =
    probe.due === 0
      ? `No mail waits for ${provider}. The next message is the probe.`
      : `One of ${probe.due} waiting recipients is tried within seconds. If it is delivered, the block ends.`;
  return { data: probe, text };
}
