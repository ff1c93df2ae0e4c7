/** `letterhaus projects`: lists and creates projects, and sets their limits and retention. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { InstallationProject } from '../../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions } from '../../cli/api.ts';
import { type Cli, type CommandResult, parseName } from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';
import { parseCount, parseMegabytes } from '../../config/env-reader.ts';
import { type Limit, parseLimit } from '../../core/limits.ts';
import { parsePeriodH } from '../../core/retention.ts';
import { ENVIRONMENTS } from '../../core/scope.ts';
import {
  updateProjectSettings,
  describeReputationAlert,
  nullIfDefault,
  showRule,
} from '../../reputation/command.ts';
import { inMegabytes, STORAGE_WARNING } from '../storage/stored-bytes.ts';
import { SET_CATEGORIES } from './settings-store.ts';

export function describeProjects(projects: Command, cli: Cli): void {
  apiCommand(projects, cli, {
    name: 'list',
    about: 'list all projects',
    examples: ['projects list'],
    environment: 'none',
    run: list,
  });
  apiCommand(projects, cli, {
    name: 'create',
    about: 'create a project',
    examples: ['projects create Shop'],
    environment: 'none',
    run: create,
  }).argument('<name>', 'name of the project', parseName);
  apiCommand(projects, cli, {
    name: 'set-limit',
    about: 'set a rate limit of a project',
    examples: [
      'projects set-limit 5000/60 --environment live',
      'projects set-limit default --category recipients',
    ],
    environment: 'both',
    run: setLimit,
  })
    .argument(
      '<limit>',
      'number per seconds, such as 5000/60, or default',
      valueOrDefault(parseLimit, 'a number per seconds, such as 5000/60'),
    )
    .addOption(new Option('--category <category>').choices(SET_CATEGORIES).default('sending'));
  apiCommand(projects, cli, {
    name: 'set-domains-max',
    about: 'set how many domains a project may have in each environment',
    examples: ['projects set-domains-max 5000'],
    environment: 'of_id',
    run: setDomainsMax,
  }).argument(
    '<count>',
    'number of domains, such as 5000, or default',
    valueOrDefault(parseCount, 'a whole number from 1 to 1000000'),
  );
  apiCommand(projects, cli, {
    name: 'set-storage-max',
    about: 'set how much mail a project may store',
    examples: ['projects set-storage-max 20000'],
    environment: 'of_id',
    run: setStorageMax,
  }).argument(
    '<megabytes>',
    'megabytes, such as 20000, or default',
    valueOrDefault(parseMegabytes, 'megabytes, from 32 to 1000000000'),
  );
  apiCommand(projects, cli, {
    name: 'set-retention',
    about: 'set how long a project keeps its mail',
    examples: ['projects set-retention --content 7d --metadata 30d'],
    environment: 'of_id',
    run: setRetention,
  })
    .addOption(periodOption('--content <period>', 'html, text and attachments'))
    .addOption(periodOption('--metadata <period>', 'emails with their timeline'));
  describeReputationAlert(projects, cli);
}

async function list({ cli, client }: Api): Promise<CommandResult> {
  const projects = await client.operator.projects();
  const lines = table(cli, {
    columns: [
      'ID',
      { heading: 'NAME', cut: 1 },
      'CREATED',
      'STORED',
      { heading: 'REPUTATION ALERT', wraps: true },
    ],
    rows: projects.data.map(
      ({ id, name, created_at: createdAt, storage, reputation_alert: rule }) => [
        id,
        name,
        shortTime(createdAt),
        showStorage(storage),
        showRule(rule),
      ],
    ),
    none: {
      says: 'There is no project yet.',
      toDo: 'To create one',
      command: 'projects create Shop',
    },
  });
  const warnings = projects.data.flatMap(({ name, warnings: ownWarnings }) =>
    ownWarnings.map(
      ({ domain, environment, message }) => `! ${name}, ${domain} (${environment}): ${message}`,
    ),
  );
  return { data: projects, text: [lines, ...warnings].join('\n') };
}

async function create({ client }: Api, _: object, [name]: [string]): Promise<CommandResult> {
  const project = await client.projects.create(name);
  return { data: project, text: `Project ${project.name} is created (${project.id}).` };
}

type OrDefault<Value> = { value: Value | null };

const valueOrDefault =
  <Value>(parse: (text: string) => Value | null, expected: string) =>
  (text: string): OrDefault<Value> => {
    const value = text === 'default' ? null : parse(text);
    if (text === 'default' || value !== null) return { value };
    throw new InvalidArgumentError(`Write ${expected}, or default.`);
  };

type LimitOptions = ApiOptions & { category: (typeof SET_CATEGORIES)[number] };

async function setLimit(
  api: Api,
  { category, environment, project }: LimitOptions,
  [{ value }]: [OrDefault<Limit>],
): Promise<CommandResult> {
  const environments = environment === undefined ? [...ENVIRONMENTS] : [environment];
  const own = value && { max: value.max, window_s: value.windowS };
  const limits = environments.map((one) => ({ environment: one, category, limit: own }));
  const settings = await updateProjectSettings(api, project, { limits });
  const limitText = own === null ? 'the default' : `${own.max} per ${own.window_s} s`;
  return {
    data: { ...settings, category, limit: own, environments },
    text: `The ${category} limit of ${environments.join(' and ')} is now ${limitText}.`,
  };
}

async function setDomainsMax(
  api: Api,
  { project }: ApiOptions,
  [{ value }]: [OrDefault<number>],
): Promise<CommandResult> {
  const settings = await updateProjectSettings(api, project, { domains_max: value });
  const text = `${settings.name} may have ${settings.domains_max} domains in each environment.`;
  return { data: settings, text };
}

async function setStorageMax(
  api: Api,
  { project }: ApiOptions,
  [{ value }]: [OrDefault<number>],
): Promise<CommandResult> {
  const settings = await updateProjectSettings(api, project, { storage_max_bytes: value });
  return { data: settings, text: `${settings.name} stores ${showStorage(settings.storage)}.` };
}

/** Returns text such as `12 MB of 200 MB`. */
function showStorage({ used_bytes: used, max_bytes: max }: InstallationProject['storage']): string {
  const ofMax = max === null ? '' : ` of ${inMegabytes(max)}`;
  const isNearlyFull = max !== null && used >= max * STORAGE_WARNING;
  return `${inMegabytes(used)}${ofMax}${isNearlyFull ? ', nearly full' : ''}`;
}

function periodOption(flags: string, what: string): Option {
  return new Option(flags, `${what}: 7d, 36h or default`).argParser((text) => {
    if (text === 'default' || parsePeriodH(text) !== null) return text;
    throw new InvalidArgumentError(
      'Write days or hours, such as 7d or 36h, at least a day, or default.',
    );
  });
}

type RetentionOptions = ApiOptions & { content?: string; metadata?: string };

async function setRetention(api: Api, options: RetentionOptions): Promise<CommandResult> {
  const { project, content, metadata } = options;
  const change = { content: nullIfDefault(content), metadata: nullIfDefault(metadata) };
  const settings = await updateProjectSettings(api, project, change);
  const { name, kept } = settings;
  const text = `${name} keeps content for ${kept.content} and metadata for ${kept.metadata}.`;
  return { data: settings, text };
}
