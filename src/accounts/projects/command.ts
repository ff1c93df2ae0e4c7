/** `letterhaus projects`: lists and creates projects, and sets their limits and retention. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  addCommand,
  type Cli,
  isFailure,
  type Outcome,
  parseName,
  usageFailure,
} from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';
import {
  describeReputationAlert,
  reputationJson,
  withAlerts,
  showRule,
} from '../../reputation/command.ts';
import {
  chooseProject,
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  type ScopesOptions,
  withStore,
} from '../../cli/store.ts';
import { parseCount, parseMegabytes } from '../../config/env-reader.ts';
import { inMegabytes, STORAGE_WARNING } from '../limits/storage.ts';
import { describeAlert } from '../../reputation/alert.ts';
import { type Limit, parseLimit } from '../../core/limits.ts';
import {
  outlivesMetadata,
  parsePeriodH,
  type Retention,
  showPeriod,
} from '../../core/retention.ts';
import { setDomainsMax } from '../../domains/domain-store.ts';
import { setLimit } from '../limits/limit-store.ts';
import {
  createOrganization,
  createProject,
  listAllProjects,
  type Project,
} from './project-store.ts';
import { findRetention, setRetention } from '../../retention/retention-store.ts';
import {
  listStorage,
  readStorage,
  setStorageMax,
  type StorageState,
} from '../limits/storage-store.ts';

const CATEGORIES = ['sending', 'recipients', 'verification', 'domains', 'webhooks'] as const;

export function describeProjects(projects: Command, cli: Cli): void {
  addCommand(projects, cli, {
    name: 'list',
    about: 'all projects',
    examples: ['projects list'],
    run: list,
  });
  addCommand(projects, cli, {
    name: 'create',
    about: 'create a project',
    examples: ['projects create Shop'],
    run: create,
  }).argument('<name>', 'for people', parseName);
  addCommand(projects, cli, {
    name: 'set-limit',
    about: 'set a rate limit of a project',
    examples: [
      'projects set-limit 5000/60 --mode live',
      'projects set-limit default --category recipients',
    ],
    run: limit,
  })
    .argument('<limit>', 'how many per seconds, as 5000/60, or default', parseLimitOrDefault)
    .addOption(new Option('--category <category>').choices(CATEGORIES).default('sending'))
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(projects, cli, {
    name: 'set-domains-max',
    about: 'set how many domains a project may have in each environment',
    examples: ['projects set-domains-max 5000'],
    run: domainsMax,
  })
    .argument('<count>', 'as 5000, or default', parseCountOrDefault)
    .addOption(projectOption());
  addCommand(projects, cli, {
    name: 'set-storage-max',
    about: 'set how much mail a project may store',
    examples: ['projects set-storage-max 20000'],
    run: storageMax,
  })
    .argument('<megabytes>', 'as 20000, or default', parseMegabytesOrDefault)
    .addOption(projectOption());
  describeRetention(projects, cli);
  describeReputationAlert(projects, cli);
}

function list(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const projects = await listAllProjects(db);
    const withRules = await withAlerts(db, projects);
    const stored = new Map((await listStorage(db)).map((one) => [one.projectId, one]));
    const rows = withRules.map(({ id, name, createdAt, rule }) => {
      return [id, name, shortTime(createdAt), showStorage(stored.get(id)), showRule(rule)];
    });
    const lines = table(cli, {
      columns: [
        'ID',
        { heading: 'NAME', cut: 1 },
        'CREATED',
        'STORED',
        { heading: 'REPUTATION ALERT', wraps: true },
      ],
      rows,
      none: {
        says: 'There is no project yet.',
        toDo: 'To create one',
        command: 'projects create Shop',
      },
    });
    const warnings = withRules.flatMap(({ name, alerts }) => {
      return alerts.map(
        (alert) => `! ${name}, ${alert.domain} (${alert.environment}): ${describeAlert(alert)}`,
      );
    });
    const data = withRules.map((one) => ({
      ...projectJson(one),
      ...reputationJson(one),
      ...storageJson(stored.get(one.id)),
    }));
    return {
      data: { object: 'list', data, has_more: false },
      text: [lines, ...warnings].join('\n'),
    };
  });
}

/** Creates a project in the existing organization. */
function create(cli: Cli, _: object, [name]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = await db.transaction(async (tx) => {
      const [any] = await listAllProjects(tx);
      const organizationId = any?.organizationId ?? (await createOrganization(tx, name)).id;
      return createProject(tx, organizationId, name);
    });
    return {
      data: projectJson(project),
      text: `Project ${project.name} is created (${project.id}).`,
    };
  });
}

type LimitOptions = ScopesOptions & { category: (typeof CATEGORIES)[number] };

function limit(cli: Cli, options: LimitOptions, [value]: [Limit | 'default']): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const { category } = options;
    const own = value === 'default' ? null : value;
    for (const scope of scopes) await setLimit(db, { ...scope, category }, own);
    const environments = scopes.map(({ environment }) => environment);
    const what = own === null ? 'the default' : `${own.max} per ${own.windowS} s`;
    return {
      data: {
        project_id: scopes[0]?.projectId,
        category,
        limit: own && { max: own.max, window_s: own.windowS },
        environments,
      },
      text: `The ${category} limit of ${environments.join(' and ')} is now ${what}.`,
    };
  });
}

function parseLimitOrDefault(text: string): Limit | 'default' {
  const value = text === 'default' ? text : parseLimit(text);
  if (value !== null) return value;
  throw new InvalidArgumentError('Write requests per seconds, as 5000/60, or default.');
}

type Count = number | 'default';

function domainsMax(cli: Cli, options: ProjectOptions, [value]: [Count]): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const project = await chooseProject(db, options.project);
    if (isFailure(project)) return project;
    await setDomainsMax(db, project.id, value === 'default' ? null : value);
    const max = value === 'default' ? config.domainsMax : value;
    return {
      data: { project_id: project.id, domains_max: max },
      text: `${project.name} may have ${max} domains in each environment.`,
    };
  });
}

function parseCountOrDefault(text: string): Count {
  const value = text === 'default' ? text : parseCount(text);
  if (value !== null) return value;
  throw new InvalidArgumentError('Write a whole number from 1 to 1000000, or default.');
}

function storageMax(cli: Cli, options: ProjectOptions, [value]: [Count]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = await chooseProject(db, options.project);
    if (isFailure(project)) return project;
    await setStorageMax(db, project.id, value === 'default' ? null : value);
    const state = await readStorage(db, project.id);
    return {
      data: { project_id: project.id, ...storageJson(state) },
      text: `${project.name} stores ${showStorage(state)}.`,
    };
  });
}

function parseMegabytesOrDefault(text: string): Count {
  const value = text === 'default' ? text : parseMegabytes(text);
  if (value !== null) return value;
  throw new InvalidArgumentError('Write megabytes, from 32 to 1000000000, or default.');
}

/** `12 MB of 200 MB` */
function showStorage({ usedBytes, maxBytes }: StorageState = NOTHING_STORED): string {
  const most = maxBytes === null ? '' : ` of ${inMegabytes(maxBytes)}`;
  const isNearlyFull = maxBytes !== null && usedBytes >= maxBytes * STORAGE_WARNING;
  return `${inMegabytes(usedBytes)}${most}${isNearlyFull ? ', nearly full' : ''}`;
}

const NOTHING_STORED: StorageState = { usedBytes: 0, maxBytes: null };

function storageJson({ usedBytes, maxBytes }: StorageState = NOTHING_STORED) {
  return { storage: { used_bytes: usedBytes, max_bytes: maxBytes } };
}

function projectJson({ id, name, createdAt }: Project) {
  return { object: 'project', id, name, created_at: createdAt };
}

type Asked = number | 'default';
type Options = ProjectOptions & { content?: Asked; metadata?: Asked };

function describeRetention(projects: Command, cli: Cli): void {
  addCommand(projects, cli, {
    name: 'set-retention',
    about: 'set how long a project keeps its mail',
    examples: ['projects set-retention --content 7d --metadata 30d'],
    run: retention,
  })
    .addOption(periodOption('--content <period>', 'html, text and attachments'))
    .addOption(periodOption('--metadata <period>', 'emails with their timeline'))
    .addOption(projectOption());
}

function periodOption(flags: string, what: string): Option {
  return new Option(flags, `${what}: as 7d or 36h, or default`).argParser((text): Asked => {
    const hours = text === 'default' ? text : parsePeriodH(text);
    if (hours !== null) return hours;
    throw new InvalidArgumentError(
      'Write days or hours, as 7d or 36h, a day at least, or default.',
    );
  });
}

function retention(cli: Cli, options: Options): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const project = await chooseProject(db, options.project);
    if (isFailure(project)) return project;
    const before = await findRetention(db, project.id);
    const own: Retention = {
      contentH: changed(before.contentH, options.content),
      metadataH: changed(before.metadataH, options.metadata),
    };
    const problem = problemWith(own, config.retention);
    if (problem !== null) return usageFailure(problem);
    await setRetention(db, { projectId: project.id, ...own });
    const metadataH = own.metadataH ?? config.retention.metadataH;
    const contentH = shorter(own.contentH ?? config.retention.contentH, metadataH);
    return {
      data: {
        project_id: project.id,
        content: own.contentH === null ? null : showPeriod(own.contentH),
        metadata: own.metadataH === null ? null : showPeriod(own.metadataH),
      },
      text: `${project.name} keeps content for ${showPeriod(contentH)} and metadata for ${showPeriod(metadataH)}.`,
    };
  });
}

function changed(before: number | null, asked: Asked | undefined): number | null {
  if (asked === undefined) return before;
  return asked === 'default' ? null : asked;
}

function shorter(a: number | null, b: number | null): number | null {
  return a === null ? b : Math.min(a, b ?? Infinity);
}

/** A project can shorten the retention of the installation but not extend it. */
function problemWith(own: Retention, longest: Retention): string | null {
  for (const [what, ownH, longestH] of [
    ['content', own.contentH, longest.contentH],
    ['metadata', own.metadataH, longest.metadataH],
  ] as const) {
    if (ownH === null || longestH === null || ownH <= longestH) continue;
    const variable = `LETTERHAUS_RETENTION_${what.toUpperCase()}`;
    return `This installation keeps ${what} for ${showPeriod(longestH)} (${variable}); a project can only keep it for less.`;
  }
  if (own.contentH === null || own.metadataH === null || !outlivesMetadata(own)) return null;
  return 'Content cannot be kept for longer than metadata; give both with --content and --metadata.';
}
