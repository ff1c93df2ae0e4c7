/** `letterhaus queue`: shows waiting mail per provider; retries, holds, releases and drops it. */
import { hostname } from 'node:os';
import { type Command, InvalidArgumentError } from 'commander';
import {
  addCommand,
  type Cli,
  type Failure,
  isFailure,
  type Outcome,
  parseRecipientDomain,
  runnable,
  usageFailure,
  EXAMPLE_ID,
} from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';
import {
  chooseProject,
  projectOption,
  type ProjectOptions,
  type Store,
  withStore,
} from '../../cli/store.ts';
import { dropFromQueue } from './drop.ts';
import { isId } from '../../database/ids.ts';
import { shownState } from '../shaping/provider-state.ts';
import { type ProviderState, readProviderStates } from '../shaping/provider-state-store.ts';
import {
  changeQueueStep,
  type ProviderInQueue,
  providersInQueue,
  QUEUE_START,
  type QueueChange,
  type QueuePlace,
  type QueueSelector,
  type QueueStep,
  WHOLE_QUEUE,
} from './change-store.ts';

const PROVIDERS_SHOWN = 30;
const PROVIDERS_MAX = 10_000;

export function describeQueue(queue: Command, cli: Cli): void {
  queue.enablePositionalOptions();
  runnable(queue, cli, { examples: ['queue', 'queue retry --domain example.org'], run: show })
    .addOption(projectOption())
    .option('--limit <n>', 'how many providers', parseCount, PROVIDERS_SHOWN);
  for (const [name, { about }] of Object.entries(CHANGES)) {
    const run = (io: Cli, options: Selection) => change(io, name as QueueChange, options);
    const examples = [`queue ${name} --domain example.org`, `queue ${name} --all`] as const;
    selectable(addCommand(queue, cli, { name, about, examples, run }));
  }
  const about = 'cancel it, with events and webhooks';
  selectable(
    addCommand(queue, cli, {
      name: 'drop',
      about,
      examples: [`queue drop --email ${EXAMPLE_ID}`, 'queue drop --domain example.org --yes'],
      run: drop,
    }),
  ).option('--yes', 'do not ask for confirmation');
}

function selectable(command: Command): Command {
  return command
    .option('--email <id>', 'the recipients of this email', parseId)
    .option('--domain <domain>', 'recipients at this domain', parseRecipientDomain)
    .option('--provider <provider>', 'what waits for this provider, as in the list')
    .addOption(projectOption())
    .option('--all', 'everything in the queue');
}

function show(cli: Cli, options: ProjectOptions & { limit: number }): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = options.project === undefined ? null : await chooseProject(db, options.project);
    if (project !== null && isFailure(project)) return project;
    const filter = { projectId: project?.id ?? null, limit: options.limit };
    const { providers, total } = await providersInQueue(db, filter);
    const states = new Map((await readProviderStates(db)).map((state) => [state.provider, state]));
    const rows = providers.map((provider) => ({
      ...provider,
      state: states.get(provider.provider) ?? null,
    }));
    const more = total - providers.length;
    return {
      data: { object: 'list', data: rows.map(providerJson), has_more: more > 0 },
      text: `${providerTable(cli, rows)}${more > 0 ? `\n… and ${more} more; --limit shows them` : ''}`,
    };
  });
}

type ShownProvider = ProviderInQueue & { state: ProviderState | null };

function providerTable(cli: Cli, providers: readonly ShownProvider[]): string {
  return table(cli, {
    columns: [
      { heading: 'PROVIDER', cut: 2 },
      'PROJECTS',
      'DEPTH',
      'DUE',
      'OLDEST',
      'HELD',
      'NEXT DUE',
      'STATE',
      { heading: 'WHY', wraps: true },
    ],
    rows: providers.map((provider) => [
      provider.provider,
      String(provider.projects),
      String(provider.depth),
      String(provider.due),
      provider.oldestS === null ? '-' : shortDuration(provider.oldestS),
      String(provider.held),
      shortTime(provider.nextDueAt),
      stateOf(provider),
      provider.state?.reason ?? '-',
    ]),
    none: {
      says: 'The queue is empty: no email waits.',
      toDo: 'To see what became of the newest emails',
      command: 'emails list',
    },
  });
}

function stateOf({ depth, held, state }: ShownProvider): string {
  if (held === depth) return 'held';
  if (state === null) return '-';
  const shown = shownState(state.state);
  return state.forMs === null ? shown : `${shown} ${shortDuration(state.forMs / 1000)}`;
}

function providerJson(provider: ShownProvider) {
  return {
    object: 'provider',
    provider: provider.provider,
    projects: provider.projects,
    depth: provider.depth,
    with_workers: provider.withWorkers,
    due: provider.due,
    oldest_due_s: provider.oldestS === null ? null : Math.round(provider.oldestS),
    held: provider.held,
    next_due_at: provider.nextDueAt,
    state: provider.state && shownState(provider.state.state),
    reason: provider.state?.reason ?? null,
    state_for_s: provider.state?.forMs == null ? null : Math.round(provider.state.forMs / 1000),
    connections: provider.state?.connectionsOpen ?? null,
    connections_max: provider.state?.connectionsMax ?? null,
  };
}

type Selection = ProjectOptions & {
  email?: string;
  domain?: string;
  provider?: string;
  all?: true;
};

const CHANGES: Readonly<Record<QueueChange, { about: string; done: string }>> = {
  retry: { about: 'make it due now', done: 'due now' },
  hold: { about: 'do not attempt it until it is released', done: 'held' },
  release: { about: 'attempt held mail again', done: 'released' },
};

function change(cli: Cli, kind: QueueChange, options: Selection): Promise<Outcome> {
  return withStore(cli, async (store) => {
    const selector = await selectorOf(store, options);
    if (isFailure(selector)) return selector;
    const steps = changeSteps(store, kind, selector);
    return report(cli, steps, { kind, done: CHANGES[kind].done, selector });
  });
}

async function* changeSteps(
  { db }: Store,
  kind: QueueChange,
  selector: QueueSelector,
): AsyncGenerator<QueueStep> {
  let from: QueuePlace | null = QUEUE_START;
  while (from !== null) {
    const step: QueueStep = await changeQueueStep(db, kind, { selector, from });
    yield step;
    from = step.next;
  }
}

function drop(cli: Cli, options: Selection & { yes?: true }): Promise<Outcome> {
  return withStore(cli, async (store) => {
    const selector = await selectorOf(store, options);
    if (isFailure(selector)) return selector;
    if (options.yes !== true) {
      if (cli.confirm === undefined)
        return usageFailure('Dropped mail cannot be restored; confirm with --yes.');
      if (!(await cli.confirm('Remove this mail from the queue permanently?'))) {
        return { failed: 'Nothing was dropped.', code: 'usage_error', exitCode: 1 };
      }
    }
    const here = { host: hostname(), pid: process.pid };
    const steps = dropFromQueue({ db: store.db, world: cli.world, process: here }, selector);
    return report(cli, steps, { kind: 'drop', done: 'dropped', selector });
  });
}

async function selectorOf(
  { db }: Store,
  { email, domain, provider, project, all }: Selection,
): Promise<QueueSelector | Failure> {
  const isNarrow = [email, domain, provider, project].some((one) => one !== undefined);
  if (!isNarrow && all !== true) {
    return usageFailure(
      'Select recipients with --email, --domain, --provider, --project (all that are given must match) or --all.',
    );
  }
  if (isNarrow && all === true)
    return usageFailure(
      '--all cannot be combined with --email, --domain, --provider or --project.',
    );
  const chosen = project === undefined ? null : await chooseProject(db, project);
  if (chosen !== null && isFailure(chosen)) return chosen;
  const what = { emailId: email ?? null, domain: domain ?? null, provider: provider ?? null };
  return { ...WHOLE_QUEUE, ...what, projectId: chosen?.id ?? null };
}

/** Recipients between progress lines on stderr. */
const PROGRESS_EVERY = 10_000;

async function report(
  cli: Cli,
  steps: AsyncIterable<QueueStep>,
  { kind, done, selector }: { kind: string; done: string; selector: QueueSelector },
): Promise<Outcome> {
  const sum = { found: 0, busy: 0, changed: 0 };
  let reported = 0;
  for await (const { found, busy, changed } of steps) {
    sum.found += found;
    sum.busy += busy;
    sum.changed += changed;
    if (sum.found < reported + PROGRESS_EVERY) continue;
    reported = sum.found;
    cli.err(`${sum.changed} of ${sum.found} ${done} so far\n`);
  }
  if (sum.found === 0 && selector.emailId !== null) {
    const message = `Nothing of email ${selector.emailId} waits in the queue.`;
    return { failed: message, code: 'not_found', exitCode: 1 };
  }
  const checked =
    kind === 'retry' ? '; the worker releases within a minute those that it does not hold' : '';
  const busy =
    sum.busy === 0 ? '' : `; ${sum.busy} were held by a worker and not changed${checked}`;
  return {
    data: { object: 'queue_change', change: kind, ...sum },
    text: `${sum.changed} of ${sum.found} waiting recipients ${done}${busy}.`,
  };
}

function shortDuration(seconds: number): string {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3_600)} h`;
}

function parseId(text: string): string {
  if (isId(text)) return text;
  throw new InvalidArgumentError(`${JSON.stringify(text)} is not the id of an email.`);
}

function parseCount(text: string): number {
  const count = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= PROVIDERS_MAX) return count;
  throw new InvalidArgumentError(`Write a number from 1 to ${PROVIDERS_MAX}.`);
}
