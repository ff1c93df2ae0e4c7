/** `letterhaus reconcile`: checks that all accepted mail is accounted for, and shows each day. */
import { type Command, InvalidArgumentError } from 'commander';
import type { ReconciledDay } from '../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions, apiRunnable } from '../cli/api.ts';
import type { Cli, CommandResult } from '../cli/command.ts';
import { table } from '../cli/table.ts';
import { STATUS_COLUMNS } from './differences.ts';

type Options = ApiOptions & { day?: string };

export function describeReconcile(command: Command, cli: Cli): void {
  command.enablePositionalOptions();
  command.option('--day <date>', 'check this day again; today is allowed', parseDay);
  apiRunnable(command, cli, {
    examples: ['reconcile', 'reconcile --day 2026-11-24', 'reconcile --project shop --json'],
    notes:
      'Checks all projects unless --project names one. Without --day it checks the days that are due and the queue, and\n' +
      'shows the last 14 days. The exit code is 1 when there is a difference that is not acknowledged. Nothing is repaired.',
    environment: 'of_id',
    run: runCheck,
  });
  apiCommand(command, cli, {
    name: 'acknowledge',
    about: 'acknowledge the known differences of a day, which ends their alarm',
    examples: ['reconcile acknowledge --day 2026-11-24'],
    environment: 'of_id',
    run: acknowledge,
  }).requiredOption('--day <date>', 'the day', parseDay);
}

function parseDay(text: string): string {
  const ms = Date.parse(`${text}T00:00:00Z`);
  if (/^\d{4}-\d\d-\d\d$/.test(text) && new Date(ms).toISOString().startsWith(text)) return text;
  throw new InvalidArgumentError('Write a date like 2026-11-24.');
}

async function runCheck(api: Api, options: Options): Promise<CommandResult> {
  const { cli, client } = api;
  const { day } = options;
  const of = { project_id: await findProjectId(api, options) };
  let asked: Parameters<typeof client.operator.checkReconciliation>[0] = { walks_queue: true, day };
  while (!(await client.operator.checkReconciliation({ ...asked, ...of })).is_complete) asked = {};
  const range = day === undefined ? {} : { from: day, to: day };
  const days = await client.operator.reconciledDays({ ...range, ...of });
  const differing = days.data.filter(({ state }) => state === 'differs');
  return {
    data: days,
    text: [daysTable(cli, days.data, day), ...differing.flatMap(explainDay)].join('\n'),
    ...(differing.length > 0 && { exitCode: 1 as const }),
  };
}

/** Returns the id of the project; undefined: all projects. */
async function findProjectId(api: Api, { project }: ApiOptions): Promise<string | undefined> {
  if (project === undefined) return undefined;
  // The response names the project, or the reason why there is none.
  await api.client.projects.limits();
  return api.lastScope().projectId ?? undefined;
}

function daysTable(cli: Cli, days: readonly ReconciledDay[], asked: string | undefined): string {
  const shownStatuses = STATUS_COLUMNS.filter((status) =>
    days.some(({ statuses }) => (statuses[status] ?? 0) > 0),
  );
  return table(cli, {
    columns: [
      'DAY',
      { heading: 'PROJECT', cut: 1 },
      'EMAILS',
      'RECIPIENTS',
      ...shownStatuses.map((status) => status.toUpperCase()),
      'STATE',
    ],
    rows: days.map((day) => [
      day.day,
      day.project,
      String(day.emails),
      String(day.recipients),
      ...shownStatuses.map((status) => String(day.statuses[status] ?? 0)),
      STATES[day.state],
    ]),
    none:
      asked === undefined
        ? 'No day with mail is over yet; --day checks one before that.'
        : `No mail was accepted on ${asked}.`,
  });
}

const STATES: Readonly<Record<ReconciledDay['state'], string>> = {
  differs: 'DIFFERENCE',
  acknowledged: 'acknowledged',
  not_checked: 'not checked yet',
  removed: 'removed before',
  accounted_for_open: 'accounted for, open',
  accounted_for: 'accounted for',
};

function explainDay({ day, project, differences }: ReconciledDay): string[] {
  const sentences = differences.flatMap(({ message, remedy }) => [`  ${message}`, `    ${remedy}`]);
  return ['', `${day}, ${project}:`, ...sentences];
}

async function acknowledge(api: Api, options: Options & { day: string }): Promise<CommandResult> {
  const { day } = options;
  const target = { day, project_id: await findProjectId(api, options) };
  return {
    data: await api.client.operator.acknowledgeReconciliation(target),
    text: `The differences of ${day} are acknowledged; further ones of this day are reported again.`,
  };
}
