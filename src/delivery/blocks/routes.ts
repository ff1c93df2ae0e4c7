/** Routes of providers that refuse the mail of this service, for operators: the list, and an immediate probe. */
import { z } from 'zod';
import { delistingPage } from '../../mail/replies/refusal-subject.ts';
import { listBlocks, makeDueForProbe, scheduleProbe, type ProviderBlock } from './block-store.ts';
import { queueProviderParams } from '../queue-control/schemas.ts';
import { refuse } from '../../http/errors.ts';
import { listResponse } from '../../http/list-pages.ts';
import { requireOperator } from '../../http/operators.ts';
import { failures, listOf, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION } from '../../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];
const BLOCKS_MAX = 1_000;
/** Milliseconds until waiting mail is due. Workers read the new probe time within 2 s. */
const DUE_AFTER_MS = 3_000;

export function registerProviderBlockRoutes(app: App, { db }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: requireOperator(db) };
  app.get('/v1/operator/provider-blocks', {
    ...route,
    schema: {
      summary: 'List the providers that refuse mail',
      description:
        'Lists the providers that refuse an address of this service or a sending domain, with their next ' +
        'probe. For owners.',
      operationId: 'listProviderBlocks',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: blockList, ...failures(404) },
    },
    handler: async () =>
      listResponse((await listBlocks(db, BLOCKS_MAX + 1)).map(blockToWire), BLOCKS_MAX),
  });

  app.post('/v1/operator/provider-blocks/:provider/probe', {
    ...route,
    schema: {
      summary: 'Probe a provider now',
      description:
        'Sends one waiting message to the provider within seconds. The block ends when the message is ' +
        'delivered. For owners.',
      operationId: 'probeProvider',
      tags: TAGS,
      security: BY_SESSION,
      params: queueProviderParams,
      response: { 200: probe, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { provider: name } = request.params;
      const blocks = await scheduleProbe(db, name);
      if (blocks === 0) {
        const message = `${name} refuses no mail of this service; letterhaus providers list shows the providers that do.`;
        return refuse(reply, { refused: 'not_found', message });
      }
      const due = await makeDueForProbe(db, name, DUE_AFTER_MS);
      return { object: 'provider_probe' as const, provider: name, blocks, due };
    },
  });
}

function blockToWire(block: ProviderBlock) {
  const { nextProbeInMs, since } = block;
  return {
    object: 'provider_block' as const,
    provider: block.provider,
    about: block.about,
    subject: block.subject,
    since: since?.toISOString() ?? null,
    refusals: block.refusals,
    sending_domains: [...block.senders],
    category: block.category,
    reply: block.reply,
    delisting_page: delistingPage(block.provider, block.reply),
    next_probe_in_s: nextProbeInMs === null ? null : Math.round(nextProbeInMs / 1000),
  };
}

const provider = z.string().meta({
  description: 'Name of the provider, as in the list and in the queue.',
  examples: ['google'],
});

const block = z
  .object({
    object: z.literal('provider_block'),
    provider,
    about: z
      .enum(['address', 'domain'])
      .describe(
        'Subject of the block. `address`: the provider refuses an address of this service. `domain`: the ' +
          'provider refuses a sending domain.',
      ),
    subject: z
      .string()
      .meta({ description: 'Refused address or domain.', examples: ['192.0.2.1'] }),
    since: time('Start of the block.').nullable(),
    refusals: z.int().describe('Number of refusals since the last delivery to the provider.'),
    sending_domains: z.array(z.string()).describe('Refused sending domains, at most 100.'),
    category: z
      .string()
      .meta({ description: 'Category of the refusal, as in the email.', examples: ['reputation'] }),
    reply: z.string().describe('Last reply that refused a message.'),
    delisting_page: z
      .string()
      .nullable()
      .describe('Page on which the operator can request delisting, or null when none is known.'),
    next_probe_in_s: z
      .int()
      .nullable()
      .describe('Seconds until the next probe, or null while a message is the probe.'),
  })
  .meta({ id: 'ProviderBlock' });

const blockList = listOf('ProviderBlockList', block);

const probe = z
  .object({
    object: z.literal('provider_probe'),
    provider,
    blocks: z.int().describe('Number of blocks that the probe tests.'),
    due: z
      .int()
      .describe(
        'Number of waiting recipients that are due now. With 0, the next message is the probe.',
      ),
  })
  .meta({ id: 'ProviderProbe' });
