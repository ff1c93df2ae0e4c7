/** Finds the project that an operator names by an id, a name, or nothing. */
import { OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import { mostSimilar } from '../../lib/similar.ts';
import type { Queryable } from '../../database/database.ts';
import { listAllProjects, makeOperatorProject, type Project } from './project-store.ts';

/** The name of the project of the installation's events (core/operator-events.ts). */
const OPERATOR = 'operator';

/**
 * @param wanted the id, or the name in any case; undefined for the only project
 * @returns a sentence when no project matches, or more than one
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

/** Whether the project of the installation's events is named, which no list shows. A real project takes precedence. */
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
    return 'There is no project yet: start the service once, or run `letterhaus projects create <name>`.';
  }
  if (wanted === undefined) {
    return `There are several projects; say which with --project (${names.join(', ')}).`;
  }
  if (several) return `Several projects are named ${wanted}; give the id instead of the name.`;
  const near = mostSimilar(wanted, names);
  const hint = near === null ? `there are: ${names.join(', ')}.` : `did you mean ${near}?`;
  return `There is no project ${JSON.stringify(wanted)}; ${hint}`;
}
