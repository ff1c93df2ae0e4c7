/** `letterhaus reconcile`: checks that all accepted mail is accounted for, and shows it day by day. */
import { setImmediate as turn } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import pino from 'pino';
import { describeDifference, DIFFERENCES, STATUS_COLUMNS, type Statuses } from './differences.ts';
import { reconcile, reportProject } from './reconcile.ts';
import { OperatorEventLog } from '../operator/events.ts';
import {
  acknowledgeDay,
  listReconciledDays,
  type ReconciledDay,
  type ReconciliationSummary,
  readReconciliation,
} from './day-store.ts';
import { checkSoon } from './reconciliation-store.ts';
import type { Database } from '../database/database.ts';
import { listAllProjects } from '../accounts/projects/project-store.ts';
import {
  addCommand,
  type Cli,
  type Failure,
  isFailure,
  type Outcome,
  runnable,
  usageFailure,
} from '../cli/command.ts';
import { chooseProject, type ProjectOptions, projectOption, withStore } from '../cli/store.ts';
import { table } from '../cli/table.ts';

const SHOWN_DAYS = 14;
const SHOWN_MAX = 1_000;
const DAY_MS = 86_400_000;

type Options = { project?: string; day?: string };

export function describeReconcile(command: Command, cli: Cli): void {
  command.enablePositionalOptions();
  command
    .option('--day <date>', 'count this day again, also today', parseDay)
    .addOption(projectOption().default(undefined, 'all'));
  runnable(command, cli, {
    examples: ['reconcile', 'reconcile --day 2026-11-24', 'reconcile --project shop --json'],
    notes:
      'Without --day it checks what is due and walks over the queue, and shows the last 14 days. The exit code is 1\n' +
      'when there is a difference that is not acknowledged. Nothing is repaired.',
    run: check,
  });
  addCommand(command, cli, {
    name: 'acknowledge',
    about: 'end the alarm about the differences of a day, which are known',
    examples: ['reconcile acknowledge --day 2026-11-24'],
    run: acknowledge,
  })
    .requiredOption('--day <date>', 'the day', parseDay)
    .addOption(projectOption().default(undefined, 'all'));
}

function parseDay(text: string): string {
  const ms = Date.parse(`${text}T00:00:00Z`);
  if (/^\d{4}-\d\d-\d\d$/.test(text) && new Date(ms).toISOString().startsWith(text)) return text;
  throw new InvalidArgumentError('Write a date, as 2026-11-24.');
}

function check(cli: Cli, options: Options): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chosen(db, options);
    if (isFailure(scope)) return scope;
    const { projectId } = scope;
    const { day } = options;
    if (day !== undefined) {
      if (day > (await readReconciliation(db)).today)
        return usageFailure(`${day} has not begun (UTC).`);
      await countAgain(db, { day, projectId });
    }
    await using operatorEvents = quietly(db, cli);
    const rest = async (): Promise<boolean> => turn(true);
    await reconcile({ db, operatorEvents, rest }, { projectId, walksQueue: true });
    const summary = await readReconciliation(db);
    const listed = await listReconciledDays(db, rangeOf(summary, { day, projectId }), SHOWN_MAX);
    const days = listed.filter(
      ({ recipients, differences, checkedAt }) =>
        recipients > 0 || differences.length > 0 || checkedAt === null,
    );
    const isDiffering = days.some(isAlarm);
    return {
      data: { object: 'list', data: days.map(toJson), has_more: listed.length === SHOWN_MAX },
      text: [daysTable(cli, days, day), ...explanations(days)].join('\n'),
      ...(isDiffering && { exitCode: 1 as const }),
    };
  });
}

/** null: all projects. */
async function chosen(
  db: Database,
  { project }: ProjectOptions,
): Promise<{ projectId: string | null } | Failure> {
  if (project === undefined) return { projectId: null };
  const found = await chooseProject(db, project);
  return isFailure(found) ? found : { projectId: found.id };
}

/** Also a day that is not over. */
async function countAgain(
  db: Database,
  { day, projectId }: { day: string; projectId: string | null },
): Promise<void> {
  const projects =
    projectId === null ? (await listAllProjects(db)).map(({ id }) => id) : [projectId];
  for (const id of projects) await checkSoon(db, { projectId: id, day });
}

function rangeOf(
  { through }: ReconciliationSummary,
  { day, projectId }: { day: string | undefined; projectId: string | null },
) {
  if (day !== undefined) return { from: day, to: day, projectId };
  const first = new Date(Date.parse(through) - (SHOWN_DAYS - 1) * DAY_MS);
  // Also days that are not over, which the walk over the queue found.
  return { from: first.toISOString().slice(0, 10), to: '9999-12-31', projectId };
}

/** The command prints what the log of the service would have. */
function quietly(db: Database, { world }: Cli): OperatorEventLog {
  return new OperatorEventLog({ db, world, log: pino({ level: 'silent' }) });
}

const isAlarm = ({ differences, acknowledgedAt }: ReconciledDay): boolean =>
  differences.length > 0 && acknowledgedAt === null;

/** Columns of statuses that nothing has are left out. */
function daysTable(cli: Cli, days: readonly ReconciledDay[], asked: string | undefined): string {
  const shown = STATUS_COLUMNS.filter((status) =>
    days.some((day) => (day.statuses[status] ?? 0) > 0),
  );
  return table(cli, {
    columns: [
      'DAY',
      { heading: 'PROJECT', cut: 1 },
      'EMAILS',
      'RECIPIENTS',
      ...shown.map((status) => status.toUpperCase()),
      'STATE',
    ],
    rows: days.map((day) => [
      day.day,
      day.projectName,
      String(day.emails),
      String(day.recipients),
      ...shown.map((status) => String(day.statuses[status] ?? 0)),
      stateOf(day),
    ]),
    none:
      asked === undefined
        ? 'No day with mail is over yet; --day checks one before that.'
        : `No mail was accepted on ${asked}.`,
  });
}

function stateOf(day: ReconciledDay): string {
  if (day.differences.length > 0) return isAlarm(day) ? 'DIFFERENCE' : 'acknowledged';
  if (day.checkedAt === null) return day.isWaiting ? 'not checked yet' : 'removed before';
  return (day.statuses.open ?? 0) > 0 ? 'accounted for, open' : 'accounted for';
}

function explanations(days: readonly ReconciledDay[]): string[] {
  return days
    .filter(isAlarm)
    .flatMap(({ day, projectName, differences }) => [
      '',
      `${day}, ${projectName}:`,
      ...differences.flatMap((difference) => [
        `  ${describeDifference(difference)}`,
        `    ${DIFFERENCES[difference.kind].toDo}`,
      ]),
    ]);
}

function toJson(one: ReconciledDay): object {
  const { projectId, projectName, day, checkedAt, acknowledgedAt, differences } = one;
  const statuses: Partial<Statuses> = one.statuses;
  return {
    day,
    project_id: projectId,
    project: projectName,
    state: stateOf(one),
    checked_at: checkedAt,
    emails: one.emails,
    recipients: one.recipients,
    statuses,
    differences,
    acknowledged_at: acknowledgedAt,
  };
}

function acknowledge(cli: Cli, options: Options & { day: string }): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chosen(db, options);
    if (isFailure(scope)) return scope;
    const { day } = options;
    const projects = await acknowledgeDay(db, { ...scope, day });
    if (projects.length === 0) {
      const failed = `There is no difference of ${day} to acknowledge; \`letterhaus reconcile\` lists them.`;
      return { failed, code: 'not_found', exitCode: 1 };
    }
    await using operatorEvents = quietly(db, cli);
    for (const id of projects) await reportProject({ db, operatorEvents }, id);
    return {
      data: { object: 'reconciliation_acknowledged', day, projects },
      text: `The differences of ${day} are acknowledged; further ones of this day are reported again.`,
    };
  });
}
