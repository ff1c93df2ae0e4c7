/** `letterhaus queue`: shows waiting mail by provider; retries, holds, releases and drops it. */
import { type Command, InvalidArgumentError } from 'commander';
import type { Queue, QueueDrop } from '../../../sdk/src/api.ts';
import type { Letterhaus } from '../../../sdk/src/client.ts';
import { LetterhausError } from '../../../sdk/src/errors.ts';
import { type Api, apiCommand, type ApiOptions, apiRunnable } from '../../cli/api.ts';
import {
  type Cli,
  confirmed,
  EXAMPLE_ID,
  type Failure,
  isFailure,
  type CommandResult,
  parseDomainArgument,
  usageFailure,
} from '../../cli/command.ts';
import { countUpTo } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';
import { isId } from '../../database/ids.ts';

const PROVIDERS_SHOWN = 30;
const PROVIDERS_MAX = 10_000;

export function describeQueue(queue: Command, cli: Cli): void {
  queue.enablePositionalOptions();
  const examples = ['queue', 'queue retry --domain example.org'] as const;
  apiRunnable(queue, cli, { examples, environment: 'both', run: showQueue }).option(
    '--limit <n>',
    'number of providers',
    countUpTo(PROVIDERS_MAX),
    PROVIDERS_SHOWN,
  );
  for (const name of ['retry', 'hold', 'release'] as const) {
    const command = apiCommand(queue, cli, {
      name,
      about: CHANGES[name].about,
      examples: [`queue ${name} --domain example.org`, `queue ${name} --all`],
      environment: 'both',
      run: (api, options: SelectionOptions) => changeQueue(api, name, options),
    });
    addSelectors(command);
  }
  addSelectors(
    apiCommand(queue, cli, {
      name: 'drop',
      about: 'cancel waiting mail after a minute, with events and webhooks',
      examples: [`queue drop --email ${EXAMPLE_ID}`, 'queue drop --domain example.org --yes'],
      environment: 'both',
      run: dropMail,
    }),
  ).option('--yes', 'do not ask for confirmation');
  apiCommand(queue, cli, {
    name: 'undo',
    about: 'undo a drop within a minute',
    examples: [`queue undo ${EXAMPLE_ID}`],
    environment: 'of_id',
    run: undoDrop,
  }).argument('<id>', 'the drop');
}

function addSelectors(command: Command): Command {
  return command
    .option('--email <id>', 'the recipients of this email', parseId)
    .option('--domain <domain>', 'recipients at this domain', parseDomainArgument)
    .option('--provider <provider>', 'mail to this provider, as in the list')
    .option('--all', 'everything in the queue');
}

type QueueClient = { client: Letterhaus; scope: 'project' | 'organization' };

async function queueClients(
  api: Api,
  { project, environment }: ApiOptions,
): Promise<QueueClient[]> {
  if (api.isOperator && project === undefined && environment === undefined) {
    return [{ client: api.clientFor({ project: '*' }), scope: 'organization' }];
  }
  return (await api.all()).map(({ client }) => ({ client, scope: 'project' }));
}

async function showQueue(
  api: Api,
  options: ApiOptions & { limit: number },
): Promise<CommandResult> {
  const clients = await queueClients(api, options);
  const queues = await Promise.all(clients.map(({ client, scope }) => client.queue.get({ scope })));
  const text = queues.map((queue) => queueText(api.cli, queue, options.limit)).join('\n\n');
  return { data: queues.length === 1 ? queues[0] : { object: 'list', data: queues }, text };
}

function queueText(cli: Cli, queue: Queue, limit: number): string {
  const { providers, has_more: hasMore, measured_at: now, drops } = queue;
  const listed = providers.slice(0, limit);
  const lines = table(cli, {
    columns: [
      { heading: 'PROVIDER', cut: 2 },
      'WAITING',
      'DUE',
      'OLDEST',
      'ON HOLD',
      'NEXT DUE',
      'STATE',
      { heading: 'WHY', wraps: true },
    ],
    rows: listed.map((provider) => [
      provider.provider,
      String(provider.waiting),
      String(provider.due),
      provider.oldest_due_at === null ? '-' : durationText(provider.oldest_due_at, now),
      String(provider.held),
      shortTime(provider.next_due_at),
      stateOf(provider, now),
      provider.limit?.message ?? '-',
    ]),
    none: {
      says: 'The queue is empty.',
      toDo: 'To see the status of the newest emails',
      command: 'emails list',
    },
  });
  const unlisted = providers.length - listed.length;
  return [
    lines,
    ...(unlisted > 0 ? [`… and ${unlisted}${hasMore ? ' or' : ''} more; --limit shows them`] : []),
    ...drops.map((drop) => dropText(cli, drop)),
  ].join('\n');
}

function stateOf(
  { waiting, held, state, state_until: until }: Queue['providers'][number],
  now: string,
) {
  if (held === waiting) return 'on hold';
  if (state === null) return '-';
  return until === null ? state : `${state} ${durationText(now, until)}`;
}

type SelectionOptions = ApiOptions & {
  email?: string;
  domain?: string;
  provider?: string;
  all?: true;
};
type Change = 'retry' | 'hold' | 'release';

const CHANGES: Readonly<Record<Change, { about: string; done: string }>> = {
  retry: { about: 'make waiting mail due now', done: 'due now' },
  hold: { about: 'put waiting mail on hold until it is released', done: 'put on hold' },
  release: { about: 'release mail on hold', done: 'released' },
};

async function changeQueue(
  api: Api,
  kind: Change,
  options: SelectionOptions,
): Promise<CommandResult> {
  const selection = selectionOf(options);
  if (isFailure(selection)) return selection;
  const { done } = CHANGES[kind];
  const sum = { found: 0, busy: 0, changed: 0 };
  for (const { client, scope } of await queueClients(api, options)) {
    let from: string | undefined;
    do {
      const response = client.queue[kind]({ ...selection, scope, from });
      const step = await response.catch(nullIfNotFound);
      if (step === null) break;
      sum.found += step.found;
      sum.busy += step.busy;
      sum.changed += step.changed;
      from = step.next ?? undefined;
      if (from !== undefined) api.cli.err(`${sum.changed} of ${sum.found} ${done} so far\n`);
    } while (from !== undefined);
  }
  if (sum.found === 0 && options.email !== undefined) return noWaitingEmail(options.email);
  const checked =
    kind === 'retry' ? '; within a minute the worker releases those that it has no record of' : '';
  return {
    data: { object: 'queue_change', change: kind, ...sum },
    text: `${sum.changed} of ${sum.found} waiting recipients ${done}${busyText(sum.busy, checked)}.`,
  };
}

async function dropMail(
  api: Api,
  options: SelectionOptions & { yes?: true },
): Promise<CommandResult> {
  const selection = selectionOf(options);
  if (isFailure(selection)) return selection;
  const refusal = await confirmed(api.cli, options.yes, {
    needs: 'Dropped mail is canceled; confirm with --yes.',
    asks: 'Drop this mail from the queue?',
    otherwise: 'Nothing was dropped.',
  });
  if (refusal !== null) return refusal;
  const drops: QueueDrop[] = [];
  for (const { client, scope } of await queueClients(api, options)) {
    const drop = await client.queue.drop({ ...selection, scope }).catch(nullIfNotFound);
    if (drop !== null) drops.push(drop);
  }
  if (drops.length === 0 && options.email !== undefined) return noWaitingEmail(options.email);
  return {
    data: drops.length === 1 ? drops[0] : { object: 'list', data: drops },
    text: drops.map((drop) => dropText(api.cli, drop)).join('\n'),
  };
}

function dropText({ program }: Cli, drop: QueueDrop): string {
  const { id, found, busy, changed, is_complete: isComplete, drops_at: at } = drop;
  const furtherText = isComplete ? '' : ' (and further matches)';
  const summary = `${changed} of ${found} waiting recipients${furtherText} will be dropped at ${shortTime(at)}${busyText(busy)}.`;
  return changed === 0
    ? summary
    : `${summary}\nTo undo the drop before then:\n  ${program} queue undo ${id}`;
}

async function undoDrop(api: Api, _: object, [id]: [string]): Promise<CommandResult> {
  const client = api.isOperator ? api.clientFor({ project: '*' }) : api.client;
  const undone = await client.queue.undoDrop(id);
  return { data: undone, text: `The drop is undone: ${undone.changed} recipients wait again.` };
}

type ApiSelection = { email_id?: string; domain?: string; provider?: string; all?: true };

function selectionOf({
  email,
  domain,
  provider,
  all,
  project,
}: SelectionOptions): ApiSelection | Failure {
  const isNarrow = [email, domain, provider].some((value) => value !== undefined);
  if (!isNarrow && project === undefined && all !== true) {
    return usageFailure(
      'Select recipients with --email, --domain, --provider, --project (all given ones must match), or --all.',
    );
  }
  if ((isNarrow || project !== undefined) && all === true) {
    return usageFailure(
      '--all cannot be combined with --email, --domain, --provider or --project.',
    );
  }
  return {
    ...(email !== undefined && { email_id: email }),
    ...(domain !== undefined && { domain }),
    ...(provider !== undefined && { provider }),
    ...(!isNarrow && { all: true as const }),
  };
}

function noWaitingEmail(email: string): Failure {
  const message = `No recipient of email ${email} waits in the queue.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}

/** Ignores the environment without the email, because an email is in only one. */
function nullIfNotFound(error: unknown): null {
  if (error instanceof LetterhausError && error.code === 'not_found') return null;
  throw error;
}

function busyText(busy: number, checked = ''): string {
  return busy === 0 ? '' : `; ${busy} were claimed by a worker and not changed${checked}`;
}

function durationText(from: string, to: string): string {
  const seconds = (Date.parse(to) - Date.parse(from)) / 1_000;
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3_600)} h`;
}

function parseId(text: string): string {
  if (isId(text)) return text;
  throw new InvalidArgumentError(`${JSON.stringify(text)} is not the id of an email.`);
}
