/** `letterhaus projects set-reputation-alert`: sets the bounce and complaint thresholds of a project. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { ProjectSettings, ProjectSettingsChange } from '../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions } from '../cli/api.ts';
import type { Cli, CommandResult } from '../cli/command.ts';
import { parsePercent } from './alert.ts';

type Options = ApiOptions & {
  bounces?: string;
  complaints?: string;
  min?: number | 'default';
  pause?: boolean;
  off?: true;
  resume?: true;
};

const EMAILS_MAX = 1_000_000;

export function describeReputationAlert(projects: Command, cli: Cli): void {
  addAlertCommand(projects, cli, 'set-reputation-alert');
  // The former name, kept for scripts.
  addAlertCommand(projects, cli, 'set-guard', true);
}

function addAlertCommand(projects: Command, cli: Cli, name: string, hidden = false): void {
  apiCommand(projects, cli, {
    name,
    about: 'set the thresholds for bounces and complaints',
    hidden,
    examples: [
      `projects ${name} --bounces 5% --complaints 0.3% --pause`,
      `projects ${name} Shop --resume`,
    ],
    environment: 'of_id',
    run: setReputationAlert,
  })
    .argument('[project]', 'name or id (default: the only one)')
    .addOption(percentOption('--bounces <share>', 'share of bounces in 24 hours, like 5%'))
    .addOption(percentOption('--complaints <share>', 'share of complaints in 24 hours, like 0.3%'))
    .addOption(
      new Option(
        '--min <emails>',
        'no alert below this number of emails, like 500, or default',
      ).argParser(parseMin),
    )
    .addOption(new Option('--pause', 'put new mail of the domain on hold until it is released'))
    .addOption(new Option('--no-pause', 'only warn').default(undefined))
    .addOption(new Option('--resume', 'end current pauses and release mail on hold'))
    .addOption(new Option('--off', 'no alerts for this project'));
}

function percentOption(flags: string, description: string): Option {
  return new Option(flags, `${description}, or default`).argParser((text) => {
    if (text === 'default' || parsePercent(text) !== null) return text;
    throw new InvalidArgumentError('Write a share like 5% or 0.3%, or default.');
  });
}

function parseMin(text: string): number | 'default' {
  if (text === 'default') return text;
  const count = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= EMAILS_MAX) return count;
  throw new InvalidArgumentError('Write a number of emails like 500, or default.');
}

async function setReputationAlert(
  api: Api,
  options: Options,
  [project]: [string | undefined],
): Promise<CommandResult> {
  const { bounces, complaints, min, pause, off } = options;
  const settings = await updateProjectSettings(api, project ?? options.project, {
    reputation_alert: {
      on: off !== true,
      bounces: nullIfDefault(bounces),
      complaints: nullIfDefault(complaints),
      min: nullIfDefault(min),
      pause,
    },
  });
  const resumed = options.resume === true ? await resume(api, settings.project_id) : null;
  const released =
    resumed &&
    ` ${resumed.domains.length} domains send again, ${resumed.released} waiting recipients released.`;
  return {
    data: { ...settings, resumed },
    text: `${settings.name} has alerts for ${showRule(settings.reputation_alert)}.${released ?? ''}`,
  };
}

async function resume({ client }: Api, projectId: string) {
  const { domains, ...first } = await client.operator.resumeProject(projectId);
  let { released, next } = first;
  while (next !== null) {
    const step = await client.operator.resumeProject(projectId, { from: next });
    released += step.released;
    next = step.next;
  }
  return { domains, released };
}

/** Returns null for `default`, which restores the installation's setting. */
export function nullIfDefault<Value>(value: Value | 'default'): Value | null {
  return value === 'default' ? null : value;
}

/**
 * Changes settings of a project.
 * @param project name or id; absent: the only project
 */
export async function updateProjectSettings(
  api: Api,
  project: string | undefined,
  change: ProjectSettingsChange,
): Promise<ProjectSettings> {
  // The response names the project, or refuses an unknown one.
  await api.clientFor({ project }).projects.limits();
  return api.client.operator.updateProjectSettings(api.lastScope().projectId ?? '', change);
}

/** Formats a rule as `5% bounces, 0.3% complaints of 500 or more`. */
export function showRule(rule: ProjectSettings['reputation_alert']): string {
  const { on, bounces, complaints, min, pause } = rule;
  if (!on) return 'nothing';
  return `${bounces} bounces, ${complaints} complaints of ${min} or more${pause ? ', then paused' : ''}`;
}
