/** `letterhaus webhooks`: registers, lists, changes and removes webhook endpoints. */
import { Option, type Command } from 'commander';
import type { Webhook } from '../../../sdk/src/api.ts';
import { LetterhausError } from '../../../sdk/src/errors.ts';
import { listInAll, type Api, apiCommand, type ApiOptions, listData } from '../../cli/api.ts';
import { type Cli, EXAMPLE_ID, type CommandResult, usageFailure } from '../../cli/command.ts';
import { PAGE_MAX } from '../../cli/lists.ts';
import { facts, shortTime, table } from '../../cli/table.ts';
import type { EventType } from '../../core/events.ts';
import { parseEvents } from '../../events/command.ts';
import { describeWebhookDeliveries } from './deliveries-command.ts';
import { describeListen } from './listen-command.ts';

export function describeWebhooks(webhooks: Command, cli: Cli): void {
  apiCommand(webhooks, cli, {
    name: 'list',
    about: 'list webhooks',
    examples: ['webhooks list --environment live'],
    environment: 'both',
    run: list,
  });
  apiCommand(webhooks, cli, {
    name: 'show',
    about: 'show a webhook',
    examples: [`webhooks show ${EXAMPLE_ID}`],
    environment: 'of_id',
    run: show,
  }).argument('<id>');
  apiCommand(webhooks, cli, {
    name: 'add',
    about: 'send events to a URL',
    examples: [
      'webhooks add https://acme.com/hooks/mail',
      'webhooks add https://acme.com/hooks/mail --events email.delivered,email.bounced',
    ],
    environment: 'live',
    run: add,
  })
    .argument('<url>')
    .option(
      '--events <types>',
      'only these types, separated by commas (default: all)',
      parseEvents,
    );
  describeChanges(webhooks, cli);
  describeWebhookDeliveries(webhooks, cli);
  describeListen(webhooks, cli);
}

function describeChanges(webhooks: Command, cli: Cli): void {
  apiCommand(webhooks, cli, {
    name: 'update',
    about: 'change URL, events or state',
    examples: [
      `webhooks update ${EXAMPLE_ID} --url https://acme.com/hooks/new`,
      `webhooks update ${EXAMPLE_ID} --events email.bounced --enable`,
    ],
    environment: 'of_id',
    hasOtherUrl: true,
    run: update,
  })
    .argument('<id>')
    .option('--url <url>', 'new URL')
    .option('--events <types>', 'only these types, separated by commas, or all', parseEventsOrAll)
    .option('--enable', 'send events to the webhook')
    .addOption(new Option('--disable', 'send no events to the webhook').conflicts('enable'));
  const commands = { enable, 'rotate-secret': rotateSecret, remove };
  const about = {
    enable: 'enable a disabled webhook',
    'rotate-secret': 'rotate the signing secret and show the new one once',
    remove: 'remove a webhook',
  };
  for (const name of ['enable', 'rotate-secret', 'remove'] as const) {
    apiCommand(webhooks, cli, {
      name,
      about: about[name],
      examples: [`webhooks ${name} ${EXAMPLE_ID}`],
      environment: 'of_id',
      run: (api, _options, [id]: [string]) => commands[name](api, id),
    }).argument('<id>');
  }
}

async function list(api: Api): Promise<CommandResult> {
  const found = await listInAll(await api.all(), (client) =>
    client.webhooks.list({ limit: PAGE_MAX }),
  );
  return {
    data: listData(found),
    text: table(api.cli, {
      columns: [
        'ID',
        { heading: 'URL', cut: 3 },
        'ENVIRONMENT',
        { heading: 'STATUS', cut: 2 },
        { heading: 'EVENTS', cut: 1 },
      ],
      rows: found.map(({ environment, ...webhook }) => [
        webhook.id,
        webhook.url,
        environment,
        statusText(webhook),
        webhook.events?.join(', ') ?? 'all',
      ]),
      none: {
        says: 'There is no webhook yet.',
        toDo: 'To have events posted to a URL',
        command: 'webhooks add https://yourdomain.com/hooks/letterhaus',
      },
    }),
  };
}

function statusText({ status, disabled_reason: reason }: Webhook): string {
  return reason === null ? status : `${status}: ${reason}`;
}

type AddOptions = ApiOptions & { events?: EventType[] };

async function add(api: Api, { events }: AddOptions, [url]: [string]): Promise<CommandResult> {
  const created = await withLocalUrlHint(url, api.client.webhooks.create({ url, events }));
  const text = `${created.signing_secret}\n\nThis signing secret of the webhook is shown only once (id ${created.id}).`;
  return { data: created, text };
}

/** Appends the two ways to use a local URL in development to the refusal of that URL. */
async function withLocalUrlHint<Result>(
  url: string | undefined,
  request: Promise<Result>,
): Promise<Result> {
  try {
    return await request;
  } catch (error) {
    const isRefused = error instanceof LetterhausError && error.code === 'validation_error';
    if (!isRefused || url === undefined || !isLocal(url)) throw error;
    const hint =
      `for development, "webhooks listen --forward-to ${url}" posts events there; ` +
      'LETTERHAUS_ALLOW_PRIVATE_NETWORKS=1 permits such URLs: set it for the service';
    const { status, code, request_id, details, retry_after } = error;
    const message = `${error.message}; ${hint}.`;
    throw new LetterhausError({ status, code, message, request_id, details, retry_after });
  }
}

function isLocal(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || !/\.[a-z-]+\.?$/i.test(url.hostname));
}

async function show(api: Api, _options: ApiOptions, [id]: [string]): Promise<CommandResult> {
  const webhook = await api.byId.webhooks.get(id);
  const text = facts([
    ['id', id],
    ['url', webhook.url],
    ['environment', api.lastScope().environment],
    ['status', statusText(webhook)],
    ['failing since', webhook.failing_since && shortTime(webhook.failing_since)],
    ['events', webhook.events?.join(', ') ?? 'all'],
    ['created', shortTime(webhook.created_at)],
  ]);
  return { data: webhook, text };
}

type UpdateOptions = ApiOptions & {
  events?: EventType[] | 'all';
  enable?: true;
  disable?: true;
};

async function update(api: Api, options: UpdateOptions, [id]: [string]): Promise<CommandResult> {
  const { url, events } = options;
  const status = options.enable ? 'enabled' : options.disable ? 'disabled' : undefined;
  if (url === undefined && events === undefined && status === undefined) {
    return usageFailure('Give a change: --url, --events, --enable or --disable.');
  }
  const change = { url, events: events === 'all' ? null : events, status } as const;
  const webhook = await withLocalUrlHint(url, api.byId.webhooks.update(id, change));
  const types = webhook.events?.join(', ') ?? 'all events';
  const text = `The webhook to ${webhook.url} is ${webhook.status} and receives ${types}.`;
  return { data: webhook, text };
}

async function rotateSecret(api: Api, id: string): Promise<CommandResult> {
  const rotated = await api.byId.webhooks.rotateSecret(id);
  const text = `${rotated.signing_secret}\n\nThis signing secret is shown only once. For 24 hours events are also signed with the old secret.`;
  return { data: rotated, text };
}

async function enable(api: Api, id: string): Promise<CommandResult> {
  const webhook = await api.byId.webhooks.update(id, { status: 'enabled' });
  return { data: webhook, text: `The webhook to ${webhook.url} is enabled.` };
}

async function remove(api: Api, id: string): Promise<CommandResult> {
  const data = await api.byId.webhooks.delete(id);
  return { data, text: `Removed webhook ${id}.` };
}

function parseEventsOrAll(text: string): EventType[] | 'all' {
  return text.trim() === 'all' ? 'all' : parseEvents(text);
}
