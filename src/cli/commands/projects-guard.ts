/** `posthorn projects set-guard`: when a project is warned of its bounces and complaints. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  describeTrip,
  type GuardRule,
  guardRule,
  type OwnGuard,
  parsePercent,
  ratePpm,
  showPercent,
} from '../../core/guard.ts';
import type { Queryable } from '../../store/postgres/database.ts';
import type { Project } from '../../store/projects.ts';
import {
  changeQueueStep,
  QUEUE_START,
  type QueuePlace,
  type QueueStep,
} from '../../store/queue-changes.ts';
import {
  listGuards,
  listTrips,
  resumeSenders,
  setGuard,
  type Trip,
} from '../../store/reputation.ts';
import { chooseProject, projectOption, type ProjectOptions, withStore } from '../store.ts';
import { addCommand, type Cli, isFailure, type Outcome } from '../command.ts';

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
const TRIPS_MAX = 1_000;

export function describeGuard(projects: Command, cli: Cli): void {
  addCommand(projects, cli, {
    name: 'set-guard',
    about: 'set when bounces and complaints are too many',
    run: guard,
  })
    .argument('[project]', 'name or id (default: the only one)')
    .addOption(percentOption('--bounces <share>', 'of what ends in 24 hours, as 5%'))
    .addOption(percentOption('--complaints <share>', 'the same, as 0.3%'))
    .addOption(
      new Option('--min <emails>', 'of fewer nothing follows: as 500, or default').argParser(
        parseMin,
      ),
    )
    .addOption(new Option('--pause', 'then new mail of the domain waits until it is let go'))
    .addOption(new Option('--no-pause', 'it only warns'))
    .addOption(new Option('--resume', 'end the pauses of now, and release what waits on hold'))
    .addOption(new Option('--off', 'no warnings for this project'))
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

function guard(cli: Cli, options: Options, [wanted]: [string | undefined]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = await chooseProject(db, wanted ?? options.project);
    if (isFailure(project)) return project;
    const before = (await listGuards(db)).find(({ projectId }) => projectId === project.id);
    const own: OwnGuard = {
      isOn: options.off !== true,
      bouncesPpm: changed(before?.bouncesPpm, options.bounces),
      complaintsPpm: changed(before?.complaintsPpm, options.complaints),
      emailsMin: changed(before?.emailsMin, options.min),
      pauses: options.pause ?? before?.pauses ?? false,
    };
    await setGuard(db, project.id, own);
    const rule = guardRule(own);
    const resumed = options.resume === true ? await resume(db, project.id) : null;
    const released =
      resumed &&
      ` ${resumed.domains.length} domains go on, ${resumed.released} waiting recipients released.`;
    return {
      data: { project_id: project.id, guard: ruleJson(rule), resumed },
      text: `${project.name} is watched for ${showRule(rule)}.${released ?? ''}`,
    };
  });
}

/** First the pause ends, then what waits is let go: nothing is held in between. */
async function resume(db: Queryable, projectId: string) {
  const domains = await resumeSenders(db, projectId);
  const selector = { emailId: null, domain: null, projectId };
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

export type Guarded = Project & { rule: GuardRule; trips: Trip[] };

/** Projects with their rules and what is beyond them. */
export async function guardsOf(db: Queryable, projects: readonly Project[]): Promise<Guarded[]> {
  const own = new Map((await listGuards(db)).map((one) => [one.projectId, one]));
  const trips = await listTrips(db, { projectId: null, limit: TRIPS_MAX });
  return projects.map((project) => ({
    ...project,
    rule: guardRule(own.get(project.id)),
    trips: trips.filter(({ projectId }) => projectId === project.id),
  }));
}

export function guardJson({ rule, trips }: Guarded) {
  return { guard: ruleJson(rule), warnings: trips.map(tripJson) };
}

function tripJson(trip: Trip) {
  const { environment, domain, kind, count, ended, thresholdPpm, since, isPaused } = trip;
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
    message: describeTrip(trip),
  };
}

function ruleJson({ isOn, bouncesPpm, complaintsPpm, emailsMin, pauses }: GuardRule) {
  return {
    on: isOn,
    bounces: showPercent(bouncesPpm),
    complaints: showPercent(complaintsPpm),
    min: emailsMin,
    pause: pauses,
  };
}

/** `5% bounces, 0.3% complaints of 500 or more`. */
export function showRule(rule: GuardRule): string {
  const { isOn, bouncesPpm, complaintsPpm, emailsMin, pauses } = rule;
  if (!isOn) return 'nothing';
  const shares = `${showPercent(bouncesPpm)} bounces, ${showPercent(complaintsPpm)} complaints`;
  return `${shares} of ${emailsMin} or more${pauses ? ', then paused' : ''}`;
}
