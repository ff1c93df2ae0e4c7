/** `posthorn webhooks`: register, list, enable again and remove webhook endpoints. */
import { InvalidArgumentError, type Command } from 'commander';
import { EVENT_TYPES, type EventType } from '../../core/events.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import type { Scope } from '../../core/scope.ts';
import { mostSimilar } from '../../core/similar.ts';
import { NO_ENDPOINT } from '../../webhooks/replays.ts';
import { presentWebhook, presentWithSecret } from '../../webhooks/present.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  type ScopeOptions,
  scopesOfId,
  type ScopesOptions,
} from '../store.ts';
import { addCommand, type Cli, failure, isFailure, type Outcome, table } from '../command.ts';
import { withFeatures, type Features } from '../features.ts';

/** More than a project can have. */
const PAGE = { limit: 1000, after: null, before: null };

export function describeWebhooks(webhooks: Command, cli: Cli): void {
  addCommand(webhooks, cli, { name: 'list', about: 'all webhooks', run: list })
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(webhooks, cli, { name: 'add', about: 'send events to a URL', run: add })
    .argument('<url>')
    .option('--events <types>', 'only these, separated by commas (default: all)', parseEvents)
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(webhooks, cli, { name: 'enable', about: 'enable one that was disabled', run: enable })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(webhooks, cli, { name: 'remove', about: 'stop notifying a URL', run: remove })
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
      text: table(
        ['ID', 'URL', 'MODE', 'STATUS', 'EVENTS'],
        found.map(({ endpoint: { id, url, status, disabledReason, events }, mode }) => {
          const state = disabledReason === null ? status : `${status}: ${disabledReason}`;
          return [id, url, mode, state, events?.join(', ') ?? 'all'];
        }),
        'There is no webhook.',
      ),
    };
  });
}

type AddOptions = ScopeOptions & { events?: EventType[] };

function add(cli: Cli, options: AddOptions, [url]: [string]): Promise<Outcome> {
  return withFeatures(cli, async ({ db, webhooks }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const made = await webhooks.create(scope, { url, events: options.events ?? null });
    if (isRefusal(made)) return failure(made);
    const text = `${made.signingSecret}\n\nThis signing secret of the webhook is shown only once (id ${made.endpoint.id}).`;
    return { data: presentWithSecret(made), text };
  });
}

function enable(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onOne(cli, { options, id }, async ({ webhooks }, scope) => {
    const endpoint = await webhooks.update(scope, id, { status: 'enabled' });
    if (isRefusal(endpoint)) return endpoint;
    return { data: presentWebhook(endpoint), text: `The webhook to ${endpoint.url} is enabled.` };
  });
}

function remove(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return onOne(cli, { options, id }, async ({ webhooks }, scope) => {
    const deleted = await webhooks.delete(scope, id);
    if (isRefusal(deleted)) return deleted;
    return { data: { object: 'webhook', id, deleted: true }, text: `Webhook ${id} is removed.` };
  });
}

/** An id says by itself which project and environment it is in: those where it is found. */
function onOne(
  cli: Cli,
  { options, id }: { options: ProjectOptions; id: string },
  work: (features: Features, scope: Scope) => Promise<Outcome | Refusal>,
): Promise<Outcome> {
  return withFeatures(cli, async (features) => {
    const scopes = await scopesOfId(features.db, options, { table: 'webhook_endpoints', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      const outcome = await work(features, scope);
      if (!isRefusal(outcome)) return outcome;
      if (outcome.refused !== 'not_found') return failure(outcome);
    }
    return failure(NO_ENDPOINT);
  });
}

function parseEvents(text: string): EventType[] {
  return text.split(',').map((word) => {
    const type = EVENT_TYPES.find((known) => known === word.trim());
    if (type !== undefined) return type;
    const near = mostSimilar(word, EVENT_TYPES);
    const hint = near === null ? `There are ${EVENT_TYPES.join(', ')}.` : `Did you mean ${near}?`;
    throw new InvalidArgumentError(`There is no event ${JSON.stringify(word)}. ${hint}`);
  });
}
