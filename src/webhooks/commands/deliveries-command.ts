/** `letterhaus webhooks test|deliveries|replay`: sends a test event, lists deliveries, sends them again. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import { EVENT_TYPES } from '../../core/events.ts';
import { isRefusal } from '../../core/refusals.ts';
import { presentDelivery, presentDeliveryDetail, presentReplay } from '../view.ts';
import type {
  DeliveryFilter,
  DeliveryStatus,
  LoggedAttempt,
  WebhookDelivery,
  WebhookDeliveryDetail,
} from '../delivery-store.ts';
import type { WebhookReplay } from '../replay-store.ts';
import {
  addCommand,
  type Cli,
  type Outcome,
  parseTime,
  type Success,
  usageFailure,
  EXAMPLE_ID,
} from '../../cli/command.ts';
import { type Empty, facts, shortTime, table } from '../../cli/table.ts';
import { onWebhook } from '../../cli/features.ts';
import { projectOption, type ProjectOptions } from '../../cli/store.ts';

const STATUSES = ['pending', 'delivered', 'failed'] as const;
const TYPES = [...EVENT_TYPES, 'webhook.test'] as const;
const LIMIT_MAX = 1000;

export function describeWebhookDeliveries(webhooks: Command, cli: Cli): void {
  addCommand(webhooks, cli, {
    name: 'test',
    about: 'send a test event now',
    examples: [`webhooks test ${EXAMPLE_ID}`],
    run: test,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'deliveries',
    about: 'the newest deliveries, or one with its attempts',
    examples: [`webhooks deliveries ${EXAMPLE_ID} --status failed`],
    run: deliveries,
  })
    .argument('<id>', 'the webhook')
    .argument('[delivery]', 'the id of one delivery')
    .addOption(statusOption())
    .addOption(new Option('--type <type>', 'only events of this kind').choices(TYPES))
    .option('--after <delivery>', 'continue after this delivery')
    .option('--limit <n>', 'how many', parseCount, 20)
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'replay',
    about: 'send one delivery again, or all of a period',
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
      'from then on: 30m, 6h, 2d ago, or a time as 2026-11-21T08:30Z',
      (text) => parseTime(text, cli.world.now()),
    )
    .option('--until <time>', 'before then (default: now)', (text) =>
      parseTime(text, cli.world.now()),
    )
    .addOption(statusOption())
    .option('--progress <replay>', 'the progress of a replay of a period')
    .addOption(projectOption());
}

function statusOption(): Option {
  return new Option('--status <status>', 'only with this status').choices(STATUSES);
}

/** Exit code 1 when the receiver did not accept the event. */
function test(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const tested = await webhooks.test(scope, id);
    if (isRefusal(tested)) return tested;
    const [attempt] = tested.log;
    const text = `The test event ${tested.id} is ${tested.status}: ${attempt ? saying(attempt) : ''}`;
    const data = presentDeliveryDetail(tested);
    return tested.status === 'delivered' ? { data, text } : { data, text, exitCode: 1 };
  });
}

type ListOptions = ProjectOptions & {
  status?: DeliveryStatus;
  type?: NonNullable<DeliveryFilter['type']>;
  after?: string;
  limit: number;
};

function deliveries(
  cli: Cli,
  options: ListOptions,
  [id, deliveryId]: [string, string | undefined],
): Promise<Outcome> {
  const { status = null, type = null, after = null, limit } = options;
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    if (deliveryId !== undefined) {
      const found = await webhooks.delivery(scope, { endpointId: id, id: deliveryId });
      return isRefusal(found) ? found : shown(cli, found);
    }
    const page = { limit, after, before: null };
    const found = await webhooks.deliveries(scope, id, { status, type, page });
    if (isRefusal(found)) return found;
    const { rows, hasMore, scannedUntil } = found;
    const lines = table(cli, {
      columns: ['ID', 'CREATED', { heading: 'EVENT', cut: 1 }, 'STATUS', 'ATTEMPTS', 'NEXT'],
      rows: rows.map(cells),
      none: noneOf(id, status !== null || type !== null || after !== null),
    });
    const from = scannedUntil ?? rows.at(-1)?.id;
    return {
      data: {
        object: 'list',
        data: rows.map(presentDelivery),
        has_more: hasMore,
        scanned_until: scannedUntil,
      },
      text: hasMore ? `${lines}\nMore deliveries: --after ${from}` : lines,
    };
  });
}

function noneOf(id: string, isFiltered: boolean): Empty {
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

function cells(delivery: WebhookDelivery): string[] {
  const { id, createdAt, type, status, attempts, nextAttemptAt } = delivery;
  return [id, shortTime(createdAt), type, status, String(attempts), shortTime(nextAttemptAt)];
}

function shown(cli: Cli, delivery: WebhookDeliveryDetail): Success {
  const { id, type, status, createdAt, completedAt, nextAttemptAt, event, log } = delivery;
  const about = facts([
    ['id', id],
    ['event', type],
    ['status', status],
    ['created', shortTime(createdAt)],
    ['completed', completedAt && shortTime(completedAt)],
    ['next attempt', nextAttemptAt && shortTime(nextAttemptAt)],
    ['data', event === null ? 'no longer kept' : event.data],
  ]);
  const attempts = table(cli, {
    columns: ['ATTEMPT', 'STATUS', 'LATENCY', { heading: 'RESPONSE', wraps: true }],
    rows: log.map((one) => [
      shortTime(one.at),
      String(one.status ?? '-'),
      `${one.latency_ms} ms`,
      one.error ?? one.answer ?? '',
    ]),
    none: 'There was no attempt yet.',
  });
  return { data: presentDeliveryDetail(delivery), text: `${about}\n\n${attempts}` };
}

function saying({ status, latency_ms: latencyMs, error }: LoggedAttempt): string {
  const answer = status === null ? '' : `status ${status} after ${latencyMs} ms`;
  return [answer, error].filter(Boolean).join(', ');
}

type ReplayOptions = ProjectOptions & {
  since?: Date;
  until?: Date;
  status?: DeliveryStatus;
  progress?: string;
};

async function replay(
  cli: Cli,
  options: ReplayOptions,
  [id, deliveryId]: [string, string | undefined],
): Promise<Outcome> {
  const { since, until = new Date(cli.world.now()), status = null, progress } = options;
  const wanted = [deliveryId, since, progress].filter((one) => one !== undefined);
  if (wanted.length !== 1) {
    return usageFailure('Give exactly one of: the id of a delivery, --since, --progress.');
  }
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    if (deliveryId !== undefined) {
      const replayed = await webhooks.replay(scope, { endpointId: id, id: deliveryId });
      if (isRefusal(replayed)) return replayed;
      const text = `Delivery ${deliveryId} is sent again now.`;
      return { data: presentDeliveryDetail(replayed), text };
    }
    const found =
      since === undefined
        ? await webhooks.findReplay(scope, { endpointId: id, id: progress ?? '' })
        : await webhooks.replayRange(scope, id, { since, until, status });
    return isRefusal(found) ? found : { data: presentReplay(found), text: progressOf(found) };
  });
}

function progressOf({ id, status, queued, total }: WebhookReplay): string {
  return `Replay ${id} is ${status}: ${queued} of ${total} deliveries are queued.`;
}

function parseCount(text: string): number {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= LIMIT_MAX) return count;
  throw new InvalidArgumentError(`Write a number from 1 to ${LIMIT_MAX}.`);
}
