/** Finds the project that an operator names by an id, a name, or nothing. */
import { OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import { mostSimilar } from '../../lib/similar.ts';
import type { Queryable } from '../../database/database.ts';
import { listAllProjects, findOrCreateOperatorProject, type Project } from './project-store.ts';

/** Name of the project for the installation's own events (core/operator-events.ts). */
const OPERATOR_NAME = 'operator';

/**
 * Finds the project that matches, and creates the operator's project if it is named.
 * @param nameOrId id, or name in any case; undefined: the only project
 * @returns the project, or a sentence when none or several match
 */
export async function chooseProject(
  db: Queryable,
  nameOrId: string | undefined,
): Promise<Project | string> {
  const projects = await listAllProjects(db);
  if (namesOperatorProject(nameOrId, projects)) return findOrCreateOperatorProject(db);
  const [first, second] =
    nameOrId === undefined ? projects : projects.filter((project) => matches(project, nameOrId));
  if (first !== undefined && second === undefined) return first;
  return noMatchMessage(projects, nameOrId, second !== undefined);
}

/** Returns whether the operator's project is named, which no list shows. Another project of that name comes first. */
function namesOperatorProject(nameOrId: string | undefined, projects: Project[]): boolean {
  if (nameOrId === OPERATOR_PROJECT_ID) return true;
  return nameOrId === OPERATOR_NAME && !projects.some((project) => matches(project, nameOrId));
}

function matches(project: Project, nameOrId: string): boolean {
  return project.id === nameOrId || project.name.toLowerCase() === nameOrId.toLowerCase();
}

function noMatchMessage(
  projects: Project[],
  nameOrId: string | undefined,
  areSeveral: boolean,
): string {
  const names = projects.map(({ name }) => name);
  if (projects.length === 0) {
    return 'There is no project yet. Start the service once, or run `letterhaus projects create <name>`.';
  }
  if (nameOrId === undefined) {
    return `There are several projects; say which with --project (${names.join(', ')}).`;
  }
  if (areSeveral) return `Several projects are named ${nameOrId}; give the id instead of the name.`;
  const similar = mostSimilar(nameOrId, names);
  const hint = similar === null ? `there are: ${names.join(', ')}.` : `did you mean ${similar}?`;
  return `There is no project ${JSON.stringify(nameOrId)}; ${hint}`;
}
