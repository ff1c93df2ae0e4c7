/** `letterhaus projects set-reputation-alert`: sets the bounce and complaint thresholds of a project. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  describeAlert,
  type AlertRule,
  alertRule,
  type OwnAlertRule,
  parsePercent,
  ratePpm,
  showPercent,
} from './alert.ts';
import type { Queryable } from '../database/database.ts';
import type { Project } from '../accounts/projects/project-store.ts';
import {
  changeQueueStep,
  QUEUE_START,
  type QueuePlace,
  type QueueStep,
  WHOLE_QUEUE,
} from '../delivery/queue-control/change-store.ts';
import {
  listAlertRules,
  listAlerts,
  resumeSenders,
  setAlertRule,
  type Alert,
} from './reputation-store.ts';
import { chooseProject, projectOption, type ProjectOptions, withStore } from '../cli/store.ts';
import { type Cli, isFailure, type Outcome, addCommand } from '../cli/command.ts';

type Asked = number | 'default';
type Options = ProjectOptions & {
  bounces?: Asked;
  complaints?: Asked;
  min?: Asked;
  pause?: boolean;
  off?: true;
  resume?: true;
};

const EMAILS_MAX = 1_000_000;
const ALERTS_MAX = 1_000;

export function describeReputationAlert(projects: Command, cli: Cli): void {
  addAlertCommand(projects, cli, 'set-reputation-alert');
  // The former name, kept for scripts.
  addAlertCommand(projects, cli, 'set-guard', true);
}

function addAlertCommand(projects: Command, cli: Cli, name: string, hidden = false): void {
  addCommand(projects, cli, {
    name,
    about: 'set the thresholds for bounces and complaints',
    hidden,
    examples: [
      `projects ${name} --bounces 5% --complaints 0.3% --pause`,
      `projects ${name} Shop --resume`,
    ],
    run: setReputationAlert,
  })
    .argument('[project]', 'name or id (default: the only one)')
    .addOption(percentOption('--bounces <share>', 'of what ends in 24 hours, as 5%'))
    .addOption(percentOption('--complaints <share>', 'of what ends in 24 hours, as 0.3%'))
    .addOption(
      new Option(
        '--min <emails>',
        'no alert below this number of emails, as 500, or default',
      ).argParser(parseMin),
    )
    .addOption(new Option('--pause', 'hold new mail of the domain until it is released'))
    .addOption(new Option('--no-pause', 'only warn'))
    .addOption(new Option('--resume', 'end current pauses and release held mail'))
    .addOption(new Option('--off', 'no alerts for this project'))
    .addOption(projectOption());
}

function percentOption(flags: string, what: string): Option {
  return new Option(flags, `${what}, or default`).argParser((text): Asked => {
    const ppm = text === 'default' ? text : parsePercent(text);
    if (ppm !== null) return ppm;
    throw new InvalidArgumentError('Write a share, as 5% or 0.3%, or default.');
  });
}

function parseMin(text: string): Asked {
  if (text === 'default') return text;
  const count = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= EMAILS_MAX) return count;
  throw new InvalidArgumentError('Write a number of emails, as 500, or default.');
}

function setReputationAlert(
  cli: Cli,
  options: Options,
  [wanted]: [string | undefined],
): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = await chooseProject(db, wanted ?? options.project);
    if (isFailure(project)) return project;
    const before = (await listAlertRules(db)).find(({ projectId }) => projectId === project.id);
    const own: OwnAlertRule = {
      isOn: options.off !== true,
      bouncesPpm: changed(before?.bouncesPpm, options.bounces),
      complaintsPpm: changed(before?.complaintsPpm, options.complaints),
      emailsMin: changed(before?.emailsMin, options.min),
      pauses: options.pause ?? before?.pauses ?? false,
    };
    await setAlertRule(db, project.id, own);
    const rule = alertRule(own);
    const resumed = options.resume === true ? await resume(db, project.id) : null;
    const released =
      resumed &&
      ` ${resumed.domains.length} domains send again, ${resumed.released} waiting recipients released.`;
    return {
      data: { project_id: project.id, reputation_alert: ruleJson(rule), resumed },
      text: `${project.name} has alerts for ${showRule(rule)}.${released ?? ''}`,
    };
  });
}

/** The pause ends before held mail is released, so that no mail is held in between. */
async function resume(db: Queryable, projectId: string) {
  const domains = await resumeSenders(db, projectId);
  const selector = { ...WHOLE_QUEUE, projectId };
  let released = 0;
  let from: QueuePlace | null = QUEUE_START;
  while (from !== null) {
    const step: QueueStep = await changeQueueStep(db, 'release', { selector, from });
    released += step.changed;
    from = step.next;
  }
  return { domains, released };
}

function changed(before: number | null | undefined, asked: Asked | undefined): number | null {
  if (asked === undefined) return before ?? null;
  return asked === 'default' ? null : asked;
}

export type ProjectWithAlerts = Project & { rule: AlertRule; alerts: Alert[] };

/** Adds to each project its alert rule and the domains beyond its thresholds. */
export async function withAlerts(
  db: Queryable,
  projects: readonly Project[],
): Promise<ProjectWithAlerts[]> {
  const own = new Map((await listAlertRules(db)).map((one) => [one.projectId, one]));
  const alerts = await listAlerts(db, { projectId: null, limit: ALERTS_MAX });
  return projects.map((project) => ({
    ...project,
    rule: alertRule(own.get(project.id)),
    alerts: alerts.filter(({ projectId }) => projectId === project.id),
  }));
}

export function reputationJson({ rule, alerts }: ProjectWithAlerts) {
  return { reputation_alert: ruleJson(rule), warnings: alerts.map(alertJson) };
}

function alertJson(alert: Alert) {
  const { environment, domain, kind, count, ended, thresholdPpm, since, isPaused } = alert;
  return {
    about: 'reputation',
    environment,
    domain,
    kind,
    rate: showPercent(ratePpm(count, ended)),
    threshold: showPercent(thresholdPpm),
    count,
    ended,
    since,
    paused: isPaused,
    message: describeAlert(alert),
  };
}

function ruleJson({ isOn, bouncesPpm, complaintsPpm, emailsMin, pauses }: AlertRule) {
  return {
    on: isOn,
    bounces: showPercent(bouncesPpm),
    complaints: showPercent(complaintsPpm),
    min: emailsMin,
    pause: pauses,
  };
}

/** `5% bounces, 0.3% complaints of 500 or more`. */
export function showRule(rule: AlertRule): string {
  const { isOn, bouncesPpm, complaintsPpm, emailsMin, pauses } = rule;
  if (!isOn) return 'nothing';
  const shares = `${showPercent(bouncesPpm)} bounces, ${showPercent(complaintsPpm)} complaints`;
  return `${shares} of ${emailsMin} or more${pauses ? ', then paused' : ''}`;
}
