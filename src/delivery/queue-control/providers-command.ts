/** `letterhaus providers`: those that refuse the mail of this service, and a probe of one of them now. */
import type { Command } from 'commander';
import { addCommand, type Cli, failure, type Outcome } from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';
import { withStore } from '../../cli/store.ts';
import { delistingPage } from '../../mail/replies/blocks.ts';
import { listBlocks, makeSomeDue, probeNow, type ProviderBlock } from '../blocks/block-store.ts';

const BLOCKS_MAX = 1_000;
/** Workers read the new time of the probe within 2 s; what is due before that would be put off again. */
const DUE_AFTER_MS = 3_000;

export function describeProviders(providers: Command, cli: Cli): void {
  addCommand(providers, cli, {
    name: 'list',
    about: 'list the providers that refuse the mail of this service',
    examples: ['providers list', 'providers list --json'],
    run: list,
  });
  addCommand(providers, cli, {
    name: 'retry',
    about: 'try one message now; its delivery ends the block',
    examples: ['providers retry google'],
    run: retry,
  }).argument('<name>', 'the provider, as in the list');
}

function list(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const blocks = await listBlocks(db, BLOCKS_MAX);
    const text = table(cli, {
      columns: [
        { heading: 'PROVIDER', cut: 2 },
        'REFUSES',
        'SINCE',
        'REFUSALS',
        'NEXT PROBE',
        { heading: 'REPLY', wraps: true },
      ],
      rows: blocks.map((block) => [
        block.provider,
        block.subject,
        shortTime(block.since),
        String(block.refusals),
        nextProbe(block),
        withPage(block),
      ]),
      none: {
        says: 'No provider refuses the mail of this service.',
        toDo: 'To see what waits, and why',
        command: 'queue',
      },
    });
    return { data: { object: 'list', data: blocks.map(toJson) }, text };
  });
}

function nextProbe({ nextProbeInMs }: ProviderBlock): string {
  return nextProbeInMs === null ? 'now' : `in ${Math.round(nextProbeInMs / 1000)} s`;
}

function withPage({ provider, reply }: ProviderBlock): string {
  const page = delistingPage(provider, reply);
  return page === null ? reply : `${reply} (delisting: ${page})`;
}

function toJson(block: ProviderBlock) {
  const { provider, about, subject, since, refusals, senders, category, reply } = block;
  const { nextProbeInMs } = block;
  return {
    object: 'provider_block',
    provider,
    about,
    subject,
    since,
    refusals,
    sending_domains: senders,
    category,
    reply,
    delisting_page: delistingPage(provider, reply),
    next_probe_in_s: nextProbeInMs === null ? null : Math.round(nextProbeInMs / 1000),
  };
}

function retry(cli: Cli, _options: object, [provider]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const blocks = await probeNow(db, provider);
    if (blocks === 0) {
      const message = `${provider} refuses no mail of this service: letterhaus providers list names those that do.`;
      return failure({ refused: 'not_found', message });
    }
    const due = await makeSomeDue(db, provider, DUE_AFTER_MS);
    const text =
      due === 0
        ? `No mail waits for ${provider}; the next message is the probe.`
        : `One of ${due} waiting recipients is tried within seconds; its delivery ends the block.`;
    return { data: { object: 'provider_probe', provider, blocks, due }, text };
  });
}
