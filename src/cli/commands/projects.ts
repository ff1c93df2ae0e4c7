/** `posthorn projects`: list, create, and give one limits of its own. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import { describeTrip } from '../../core/guard.ts';
import { parseLimit, type Limit } from '../../core/limits.ts';
import { parseCount } from '../../config/env-reader.ts';
import { setDomainsMax } from '../../store/domains.ts';
import { setLimit } from '../../store/limits.ts';
import {
  createOrganization,
  createProject,
  listAllProjects,
  type Project,
} from '../../store/projects.ts';
import {
  chooseProject,
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  type ScopesOptions,
} from '../choose-project.ts';
import { addCommand, isFailure, type Outcome } from '../command.ts';
import type { Cli } from '../context.ts';
import { parseName } from '../name.ts';
import { withStore } from '../store.ts';
import { shortTime, table } from '../table.ts';
import { describeGuard, guardJson, guardsOf, showRule } from './projects-guard.ts';
import { describeRetention } from './projects-retention.ts';

const CATEGORIES = ['sending', 'recipients', 'verification', 'domains'] as const;

export function describeProjects(projects: Command, cli: Cli): void {
  addCommand(projects, cli, { name: 'list', about: 'all projects', run: list });
  addCommand(projects, cli, { name: 'create', about: 'make a project', run: create }).argument(
    '<name>',
    'for people',
    parseName,
  );
  addCommand(projects, cli, {
    name: 'set-limit',
    about: 'set how much a project may do',
    run: limit,
  })
    .argument('<limit>', 'how many per seconds, as 5000/60, or default', parseLimitOrDefault)
    .addOption(new Option('--category <category>').choices(CATEGORIES).default('sending'))
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(projects, cli, {
    name: 'set-domains-max',
    about: 'set how many domains a project may have in each environment',
    run: domainsMax,
  })
    .argument('<count>', 'as 5000, or default', parseCountOrDefault)
    .addOption(projectOption());
  describeRetention(projects, cli);
  describeGuard(projects, cli);
}

function list(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const projects = await listAllProjects(db);
    const guarded = await guardsOf(db, projects);
    const rows = guarded.map(({ id, name, createdAt, rule }) => {
      return [id, name, shortTime(createdAt), showRule(rule)];
    });
    const lines = table(['ID', 'NAME', 'CREATED', 'GUARD'], rows, 'There is no project yet.');
    const warnings = guarded.flatMap(({ name, trips }) => {
      return trips.map(
        (trip) => `! ${name}, ${trip.domain} (${trip.environment}): ${describeTrip(trip)}`,
      );
    });
    const data = guarded.map((one) => ({ ...projectJson(one), ...guardJson(one) }));
    return {
      data: { object: 'list', data, has_more: false },
      text: [lines, ...warnings].join('\n'),
    };
  });
}

/** In the organization that is there; an installation has one until users are invited to others. */
function create(cli: Cli, _: object, [name]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const project = await db.transaction(async (tx) => {
      const [any] = await listAllProjects(tx);
      const organizationId = any?.organizationId ?? (await createOrganization(tx, name)).id;
      return createProject(tx, organizationId, name);
    });
    return {
      data: projectJson(project),
      text: `Project ${project.name} is made (${project.id}).`,
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

function projectJson({ id, name, createdAt }: Project) {
  return { object: 'project', id, name, created_at: createdAt };
}
