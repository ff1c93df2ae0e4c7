/** `letterhaus webhooks test|deliveries|replay`: sends a test event, lists deliveries, replays them. */
import { Option, type Command } from 'commander';
import type {
  WebhookDelivery,
  WebhookDeliveryDetail,
  WebhookReplay,
} from '../../../sdk/src/api.ts';
import type { Query } from '../../../sdk/src/transport.ts';
import { type Api, apiCommand, type ApiOptions } from '../../cli/api.ts';
import {
  type Cli,
  EXAMPLE_ID,
  type CommandResult,
  parseTime,
  type Success,
  usageFailure,
} from '../../cli/command.ts';
import { countUpTo, PAGE_MAX } from '../../cli/lists.ts';
import { type Empty, facts, shortTime, table } from '../../cli/table.ts';
import { EVENT_TYPES } from '../../core/events.ts';

const STATUSES = ['pending', 'delivered', 'failed'] as const;
const TYPES = [...EVENT_TYPES, 'webhook.test'] as const;
const LIMIT_MAX = 1000;

export function describeWebhookDeliveries(webhooks: Command, cli: Cli): void {
  apiCommand(webhooks, cli, {
    environment: 'of_id',
    name: 'test',
    about: 'send a test event now',
    examples: [`webhooks test ${EXAMPLE_ID}`],
    run: test,
  }).argument('<id>');
  apiCommand(webhooks, cli, {
    environment: 'of_id',
    name: 'deliveries',
    about: 'list the newest deliveries, or show one with its attempts',
    examples: [`webhooks deliveries ${EXAMPLE_ID} --status failed`],
    run: deliveries,
  })
    .argument('<id>', 'the webhook')
    .argument('[delivery]', 'the id of one delivery')
    .addOption(statusOption())
    .addOption(new Option('--type <type>', 'only events of this type').choices(TYPES))
    .option('--after <delivery>', 'continue after this delivery')
    .option('--limit <n>', 'number of deliveries', countUpTo(LIMIT_MAX), 20);
  apiCommand(webhooks, cli, {
    environment: 'of_id',
    name: 'replay',
    about: 'replay one delivery, or all of a period',
    notes: 'The running service sends them, at most 500 before new events.',
    examples: [
      `webhooks replay ${EXAMPLE_ID} --since 6h --status failed`,
      `webhooks replay ${EXAMPLE_ID} --progress 0193f2a5-0c1e-7b3a-9d52-6f0e8c4b21aa`,
    ],
    run: replay,
  })
    .argument('<id>', 'the webhook')
    .argument('[delivery]', 'the id of one delivery')
    .option(
      '--since <time>',
      'start of the period: 30m, 6h or 2d ago, or a time such as 2026-11-21T08:30Z',
      (text) => parseTime(text, cli.world.now()),
    )
    .option('--until <time>', 'end of the period (default: now)', (text) =>
      parseTime(text, cli.world.now()),
    )
    .addOption(statusOption())
    .option('--progress <replay>', 'show the progress of this replay');
}

function statusOption(): Option {
  return new Option('--status <status>', 'only with this status').choices(STATUSES);
}

/** Ends with exit code 1 when the receiver did not accept the event. */
async function test(api: Api, _options: ApiOptions, [id]: [string]): Promise<CommandResult> {
  const data = await api.byId.webhooks.test(id);
  const [attempt] = data.log;
  const text = `The test event ${data.id} is ${data.status}: ${attempt ? describeAttempt(attempt) : ''}`;
  return data.status === 'delivered' ? { data, text } : { data, text, exitCode: 1 };
}

type Filter = Query<'listWebhookDeliveries'>;
type ListOptions = ApiOptions & Pick<Filter, 'status' | 'type'> & { after?: string; limit: number };

async function deliveries(
  api: Api,
  { status, type, after, limit }: ListOptions,
  [id, deliveryId]: [string, string | undefined],
): Promise<CommandResult> {
  const { webhooks } = api.byId;
  if (deliveryId !== undefined)
    return describeDelivery(api.cli, await webhooks.getDelivery(id, deliveryId));
  const rows: WebhookDelivery[] = [];
  type Position = { has_more: boolean; after: string | undefined; scanned: string | null };
  let position: Position = { has_more: true, after, scanned: null };
  while (position.has_more && rows.length < limit) {
    const query = {
      status,
      type,
      after: position.after,
      limit: Math.min(limit - rows.length, PAGE_MAX),
    };
    const page = await webhooks.deliveries(id, query).page();
    rows.push(...page.data);
    const scanned = (page as { scanned_until?: string | null }).scanned_until ?? null;
    position = { has_more: page.has_more, after: scanned ?? rows.at(-1)?.id, scanned };
  }
  const isFiltered = (status ?? type ?? after) !== undefined;
  const lines = table(api.cli, {
    columns: ['ID', 'CREATED', { heading: 'EVENT', cut: 1 }, 'STATUS', 'ATTEMPTS', 'NEXT'],
    rows: rows.map(rowOf),
    none: emptyText(id, isFiltered),
  });
  const { has_more, scanned: scanned_until } = position;
  return {
    data: { object: 'list', data: rows, has_more, scanned_until },
    text: has_more ? `${lines}\nMore deliveries: --after ${position.after}` : lines,
  };
}

function emptyText(id: string, isFiltered: boolean): Empty {
  if (isFiltered) {
    const command = `webhooks deliveries ${id}`;
    return { says: 'No delivery matches.', toDo: 'To list all', command };
  }
  return {
    says: 'Nothing was delivered to this webhook yet.',
    toDo: 'To send it a test event',
    command: `webhooks test ${id}`,
  };
}

function rowOf(delivery: WebhookDelivery): string[] {
  const { id, created_at: createdAt, type, status, attempts, next_attempt_at: next } = delivery;
  return [id, shortTime(createdAt), type, status, String(attempts), shortTime(next)];
}

function describeDelivery(cli: Cli, delivery: WebhookDeliveryDetail): Success {
  const { id, type, status, completed_at: completed, next_attempt_at: next, payload } = delivery;
  const summary = facts([
    ['id', id],
    ['event', type],
    ['status', status],
    ['created', shortTime(delivery.created_at)],
    ['completed', completed && shortTime(completed)],
    ['next attempt', next && shortTime(next)],
    ['data', payload === null ? 'no longer kept' : JSON.stringify(payload.data)],
  ]);
  const attempts = table(cli, {
    columns: ['ATTEMPT', 'STATUS', 'LATENCY', { heading: 'RESPONSE', wraps: true }],
    rows: delivery.log.map((attempt) => [
      shortTime(attempt.at),
      String(attempt.status ?? '-'),
      `${attempt.latency_ms} ms`,
      attempt.error ?? attempt.answer ?? '',
    ]),
    none: 'There was no attempt yet.',
  });
  return { data: delivery, text: `${summary}\n\n${attempts}` };
}

type Attempt = WebhookDeliveryDetail['log'][number];

function describeAttempt({ status, latency_ms: latencyMs, error }: Attempt): string {
  const response = status === null ? '' : `status ${status} after ${latencyMs} ms`;
  return [response, error].filter(Boolean).join(', ');
}

type ReplayOptions = ApiOptions & {
  since?: Date;
  until?: Date;
  status?: (typeof STATUSES)[number];
  progress?: string;
};

async function replay(
  api: Api,
  { since, until, status, progress }: ReplayOptions,
  [id, deliveryId]: [string, string | undefined],
): Promise<CommandResult> {
  const { webhooks } = api.byId;
  const chosen = [deliveryId, since, progress].filter((value) => value !== undefined);
  if (chosen.length !== 1) {
    return usageFailure('Give exactly one of: the id of a delivery, --since, --progress.');
  }
  if (deliveryId !== undefined) {
    const data = await webhooks.replayDelivery(id, deliveryId);
    return { data, text: `Delivery ${deliveryId} is sent again now.` };
  }
  const to = until ?? new Date(api.cli.world.now());
  const data = await (since === undefined
    ? webhooks.getReplay(id, progress ?? '')
    : webhooks.replay(id, { since: since.toISOString(), until: to.toISOString(), status }));
  return { data, text: progressOf(data) };
}

function progressOf({ id, status, queued, total }: WebhookReplay): string {
  return `Replay ${id} is ${status}: ${queued} of ${total} deliveries are queued.`;
}
