/**
 * Which project a command is about: `--project` with an id or a name, else the only one there is.
 * What has an id needs neither: the id is looked up.
 */
import { Option } from 'commander';
import { ENVIRONMENTS, type Environment, type Scope } from '../core/scope.ts';
import { mostSimilar } from '../core/similar.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { isId } from '../store/ids.ts';
import { listAllProjects, type Owned, ownerOf, type Project } from '../store/projects.ts';
import { isFailure, usageFailure, type Failure } from './command.ts';

export type ProjectOptions = { project?: string };
export type ScopeOptions = ProjectOptions & { mode: Environment };
export type ScopesOptions = ProjectOptions & { mode?: Environment };

export function projectOption(): Option {
  return new Option('--project <name>', 'name or id of the project (default: the only one)');
}

export function modeOption(): Option {
  return new Option('--mode <mode>', 'environment').choices(ENVIRONMENTS);
}

/** The one environment of a project that a command changes. */
export async function chooseScope(db: Queryable, options: ScopeOptions): Promise<Scope | Failure> {
  const scopes = await chooseScopes(db, options);
  return isFailure(scopes) ? scopes : (scopes[0] as Scope);
}

/** What a command looks through: both environments unless --mode names one. */
export async function chooseScopes(
  db: Queryable,
  options: ScopesOptions,
): Promise<Scope[] | Failure> {
  const project = await chooseProject(db, options.project);
  if (isFailure(project)) return project;
  const environments = options.mode === undefined ? ENVIRONMENTS : [options.mode];
  return environments.map((environment) => ({ projectId: project.id, environment }));
}

/** Where to look for what has this id: in the named project, else where it is. */
export async function scopesOfId(
  db: Queryable,
  { project }: ProjectOptions,
  { table, id }: { table: Owned; id: string },
): Promise<Scope[] | Failure> {
  if (!isId(id)) return [];
  if (project !== undefined) return chooseScopes(db, { project });
  const owner = await ownerOf(db, table, id);
  return owner === null ? [] : [owner];
}

/** @param wanted id, or name in any case; undefined: the only project */
export async function chooseProject(
  db: Queryable,
  wanted: string | undefined,
): Promise<Project | Failure> {
  const projects = await listAllProjects(db);
  const [first, second] =
    wanted === undefined ? projects : projects.filter((project) => isMeant(project, wanted));
  if (first !== undefined && second === undefined) return first;
  return usageFailure(whyNone(projects, wanted, second !== undefined));
}

function isMeant(project: Project, wanted: string): boolean {
  return project.id === wanted || project.name.toLowerCase() === wanted.toLowerCase();
}

function whyNone(projects: Project[], wanted: string | undefined, several: boolean): string {
  const names = projects.map(({ name }) => name);
  if (projects.length === 0) {
    return 'There is no project yet: start the service once, or run `posthorn projects create <name>`.';
  }
  if (wanted === undefined) {
    return `There are several projects; say which with --project (${names.join(', ')}).`;
  }
  if (several) return `Several projects are named ${wanted}; give the id instead of the name.`;
  const near = mostSimilar(wanted, names);
  const hint = near === null ? `there are: ${names.join(', ')}.` : `did you mean ${near}?`;
  return `There is no project ${JSON.stringify(wanted)}; ${hint}`;
}
