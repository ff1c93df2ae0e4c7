/** Finds the project that an operator names by an id, a name, or nothing. */
import { OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import { mostSimilar } from '../../lib/similar.ts';
import type { Queryable } from '../../database/database.ts';
import { listAllProjects, makeOperatorProject, type Project } from './project-store.ts';

/** Name of the project for the installation's own events (core/operator-events.ts). */
const OPERATOR = 'operator';

/**
 * @param wanted id, or name in any case; undefined: the only project
 * @returns the project, or a sentence when none or several match
 */
export async function chooseProject(
  db: Queryable,
  wanted: string | undefined,
): Promise<Project | string> {
  const projects = await listAllProjects(db);
  if (meansOperator(wanted, projects)) return makeOperatorProject(db);
  const [first, second] =
    wanted === undefined ? projects : projects.filter((project) => isMeant(project, wanted));
  if (first !== undefined && second === undefined) return first;
  return whyNone(projects, wanted, second !== undefined);
}

/**
 * Returns whether the installation's own project is meant, which no list shows. A project with its name has
 * precedence.
 */
function meansOperator(wanted: string | undefined, projects: Project[]): boolean {
  if (wanted === OPERATOR_PROJECT_ID) return true;
  return wanted === OPERATOR && !projects.some((project) => isMeant(project, wanted));
}

function isMeant(project: Project, wanted: string): boolean {
  return project.id === wanted || project.name.toLowerCase() === wanted.toLowerCase();
}

function whyNone(projects: Project[], wanted: string | undefined, several: boolean): string {
  const names = projects.map(({ name }) => name);
  if (projects.length === 0) {
    return 'There is no project yet. Start the service once, or run `letterhaus projects create <name>`.';
  }
  if (wanted === undefined) {
    return `There are several projects; say which with --project (${names.join(', ')}).`;
  }
  if (several) return `Several projects are named ${wanted}; give the id instead of the name.`;
  const near = mostSimilar(wanted, names);
  const hint = near === null ? `there are: ${names.join(', ')}.` : `did you mean ${near}?`;
  return `There is no project ${JSON.stringify(wanted)}; ${hint}`;
}
