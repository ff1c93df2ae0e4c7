/** `letterhaus webhooks`: registers, lists, changes and removes webhook endpoints. */
import { Option, type Command } from 'commander';
import type { EventType } from '../../core/events.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import { presentWebhook, presentWithSecret } from '../view.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  type ScopeOptions,
  type ScopesOptions,
} from '../../cli/store.ts';
import {
  addCommand,
  type Cli,
  failure,
  isFailure,
  type Outcome,
  usageFailure,
  EXAMPLE_ID,
} from '../../cli/command.ts';
import { facts, shortTime, table } from '../../cli/table.ts';
import { onWebhook, withFeatures } from '../../cli/features.ts';
import { describeWebhookDeliveries } from './deliveries-command.ts';
import { parseEvents } from '../../events/command.ts';
import { describeListen } from './listen-command.ts';

/** Above the maximum number of endpoints of a project. */
const PAGE = { limit: 1000, after: null, before: null };

export function describeWebhooks(webhooks: Command, cli: Cli): void {
  addCommand(webhooks, cli, {
    name: 'list',
    about: 'all webhooks',
    examples: ['webhooks list --mode live'],
    run: list,
  })
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(webhooks, cli, {
    name: 'show',
    about: 'one webhook',
    examples: [`webhooks show ${EXAMPLE_ID}`],
    run: show,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'add',
    about: 'send events to a URL',
    examples: [
      'webhooks add https://acme.com/hooks/mail',
      'webhooks add https://acme.com/hooks/mail --events email.delivered,email.bounced',
    ],
    run: add,
  })
    .argument('<url>')
    .option('--events <types>', 'only these, separated by commas (default: all)', parseEvents)
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  describeChanges(webhooks, cli);
  describeWebhookDeliveries(webhooks, cli);
  describeListen(webhooks, cli);
}

function describeChanges(webhooks: Command, cli: Cli): void {
  addCommand(webhooks, cli, {
    name: 'update',
    about: 'change URL, events or state',
    examples: [
      `webhooks update ${EXAMPLE_ID} --url https://acme.com/hooks/new`,
      `webhooks update ${EXAMPLE_ID} --events email.bounced --enable`,
    ],
    run: update,
  })
    .argument('<id>')
    .option('--url <url>', 'another URL')
    .option('--events <types>', 'only these, separated by commas, or all', parseEventsOrAll)
    .option('--enable', 'send events to it')
    .addOption(new Option('--disable', 'send no events to it').conflicts('enable'))
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'enable',
    about: 'enable one that was disabled',
    examples: [`webhooks enable ${EXAMPLE_ID}`],
    run: enable,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'rotate-secret',
    about: 'make a new signing secret and show it once',
    examples: [`webhooks rotate-secret ${EXAMPLE_ID}`],
    run: rotateSecret,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(webhooks, cli, {
    name: 'remove',
    about: 'stop notifying a URL',
    examples: [`webhooks remove ${EXAMPLE_ID}`],
    run: remove,
  })
    .argument('<id>')
    .addOption(projectOption());
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withFeatures(cli, async ({ db, webhooks }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const pages = await Promise.all(scopes.map((scope) => webhooks.list(scope, PAGE)));
    const found = pages.flatMap(({ rows }, index) =>
      rows.map((endpoint) => ({ endpoint, mode: scopes[index]?.environment ?? '' })),
    );
    return {
      data: {
        object: 'list',
        data: found.map(({ endpoint }) => presentWebhook(endpoint)),
        has_more: false,
      },
      text: table(cli, {
        columns: [
          'ID',
          { heading: 'URL', cut: 3 },
          'MODE',
          { heading: 'STATUS', cut: 2 },
          { heading: 'EVENTS', cut: 1 },
        ],
        rows: found.map(({ endpoint: { id, url, status, disabledReason, events }, mode }) => {
          const state = disabledReason === null ? status : `${status}: ${disabledReason}`;
          return [id, url, mode, state, events?.join(', ') ?? 'all'];
        }),
        none: {
          says: 'There is no webhook yet.',
          toDo: 'To have events posted to a URL',
          command: 'webhooks add https://yourdomain.com/hooks/letterhaus',
        },
      }),
    };
  });
}

type AddOptions = ScopeOptions & { events?: EventType[] };

function add(cli: Cli, options: AddOptions, [url]: [string]): Promise<Outcome> {
  return withFeatures(cli, async ({ db, webhooks }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const made = await webhooks.create(scope, { url, events: options.events ?? null });
    if (isRefusal(made)) return failure(withHint(made, url));
    const text = `${made.signingSecret}\n\nThis signing secret of the webhook is shown only once (id ${made.endpoint.id}).`;
    return { data: presentWithSecret(made), text };
  });
}

/** Adds to the refusal of a local URL the two ways to use one in development. */
function withHint(refusal: Refusal, url: string): Refusal {
  if (!isLocal(url) || refusal.refused !== 'validation_error') return refusal;
  const hint =
    `for development, "webhooks listen --forward-to ${url}" posts events there; ` +
    'LETTERHAUS_ALLOW_PRIVATE_NETWORKS=1 permits such URLs: set it for the service and for this command';
  return { ...refusal, message: `${refusal.message}; ${hint}.` };
}

function isLocal(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || !/\.[a-z-]+\.?$/i.test(url.hostname));
}

function show(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const endpoint = await webhooks.get(scope, id);
    if (isRefusal(endpoint)) return endpoint;
    const { url, status, disabledReason, failingSince, events, createdAt } = endpoint;
    const text = facts([
      ['id', id],
      ['url', url],
      ['mode', scope.environment],
      ['status', disabledReason === null ? status : `${status}: ${disabledReason}`],
      ['failing since', failingSince && shortTime(failingSince)],
      ['events', events?.join(', ') ?? 'all'],
      ['created', shortTime(createdAt)],
    ]);
    return { data: presentWebhook(endpoint), text };
  });
}

type UpdateOptions = ProjectOptions & {
  url?: string;
  events?: EventType[] | 'all';
  enable?: true;
  disable?: true;
};

async function update(cli: Cli, options: UpdateOptions, [id]: [string]): Promise<Outcome> {
  const { url, events } = options;
  const status = options.enable ? 'enabled' : options.disable ? 'disabled' : undefined;
  if (url === undefined && events === undefined && status === undefined) {
    return usageFailure('Give a change: --url, --events, --enable or --disable.');
  }
  const change = { url, events: events === 'all' ? null : events, status } as const;
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const endpoint = await webhooks.update(scope, id, change);
    if (isRefusal(endpoint)) return url === undefined ? endpoint : withHint(endpoint, url);
    const kinds = endpoint.events?.join(', ') ?? 'all events';
    const text = `The webhook to ${endpoint.url} is ${endpoint.status} and receives ${kinds}.`;
    return { data: presentWebhook(endpoint), text };
  });
}

function rotateSecret(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const rotated = await webhooks.rotateSecret(scope, id);
    if (isRefusal(rotated)) return rotated;
    const text = `${rotated.signingSecret}\n\nThis signing secret is shown only once. For 24 hours events are also signed with the old secret.`;
    return { data: presentWithSecret(rotated), text };
  });
}

function enable(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const endpoint = await webhooks.update(scope, id, { status: 'enabled' });
    if (isRefusal(endpoint)) return endpoint;
    return { data: presentWebhook(endpoint), text: `The webhook to ${endpoint.url} is enabled.` };
  });
}

function remove(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onWebhook(cli, { options, id }, async ({ webhooks }, scope) => {
    const deleted = await webhooks.delete(scope, id);
    if (isRefusal(deleted)) return deleted;
    return { data: { object: 'webhook', id, deleted: true }, text: `Webhook ${id} is removed.` };
  });
}

function parseEventsOrAll(text: string): EventType[] | 'all' {
  return text.trim() === 'all' ? 'all' : parseEvents(text);
}
