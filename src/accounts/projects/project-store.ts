/** Organizations and their projects. A project has two environments. */
import { OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import { ENVIRONMENTS, type Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';

export type Organization = { id: string; name: string; createdAt: Date };
export type Project = { id: string; organizationId: string; name: string; createdAt: Date };

const COLUMNS = `id, organization_id as "organizationId", name, created_at as "createdAt"`;

const CREATE_ORGANIZATION = `
insert into organizations (id, name, created_at) values ($1, $2, app_now())
returning id, name, created_at as "createdAt"`;

export async function createOrganization(db: Queryable, name: string): Promise<Organization> {
  const [row] = await db.query<Organization>(CREATE_ORGANIZATION, [newId(), name]);
  if (!row) throw new Error('the new organization was not returned');
  return row;
}

// Creates the rows of limits, because the accept statement locks only rows that exist.
const CREATE_PROJECT = `
with project as (
  insert into projects (id, organization_id, name, created_at) values ($1, $2, $3, app_now())
  returning *
), windows as (
  insert into limit_windows (project_id, environment, category)
  select project.id, environment, category
    from project, unnest($4::text[]) environment, unnest($5::text[]) category
)
select ${COLUMNS} from project`;

const LIMITED_PER_SCOPE = ['sending', 'verification'];

export async function createProject(
  db: Queryable,
  organizationId: string,
  name: string,
): Promise<Project> {
  const values = [newId(), organizationId, name, ENVIRONMENTS, LIMITED_PER_SCOPE];
  const [row] = await db.query<Project>(CREATE_PROJECT, values);
  if (!row) throw new Error('the new project was not returned');
  return row;
}

const LOCK_ORGANIZATION = 'select from organizations where id = $1 for no key update';
const NAMESAKE = `
select from projects
 where organization_id = $1 and lower(name) = lower($2) and id is distinct from $3::uuid limit 1`;

/**
 * Returns whether another project of the organization has the name, in any case. Until the transaction ends, no other
 * one that asks can take it.
 * @param project.id null for a new project
 */
export async function isNameTaken(
  tx: Queryable,
  { organizationId, name, id }: { organizationId: string; name: string; id: string | null },
): Promise<boolean> {
  await tx.query(LOCK_ORGANIZATION, [organizationId]);
  return (await tx.query(NAMESAKE, [organizationId, name, id])).length > 0;
}

const LIST = `select ${COLUMNS} from projects where organization_id = $1 order by id desc`;

export async function listProjects(db: Queryable, organizationId: string): Promise<Project[]> {
  return db.query<Project>(LIST, [organizationId]);
}

const LIST_ALL = `select ${COLUMNS} from projects where id <> '${OPERATOR_PROJECT_ID}' order by id`;

/** Lists every project of this installation except the operator's, oldest first. For the operator only. */
export async function listAllProjects(db: Queryable): Promise<Project[]> {
  return db.query<Project>(LIST_ALL);
}

// The organization has the same id and no members. The project sends nothing, so it has no limits.
const CREATE_OPERATOR_PROJECT = `
with organization as (
  insert into organizations (id, name, created_at) values ($1, $2, app_now()) on conflict (id) do nothing
)
insert into projects (id, organization_id, name, created_at) values ($1, $1, $2, app_now())
on conflict (id) do update set name = excluded.name
returning ${COLUMNS}`;

/** Returns the project of the installation's own events; creates it with its first key or webhook. */
export async function findOrCreateOperatorProject(db: Queryable): Promise<Project> {
  const [row] = await db.query<Project>(CREATE_OPERATOR_PROJECT, [OPERATOR_PROJECT_ID, 'operator']);
  if (!row) throw new Error('the project of the operator was not returned');
  return row;
}

export type OwnedTable = 'api_keys' | 'domains' | 'emails' | 'webhook_endpoints';

// Looks in one project after another, because the index lists the id after project and environment.
const findScope = (table: OwnedTable) => `
select projects.id as "projectId", found.environment
  from projects cross join unnest($2::text[]) environment
 cross join lateral (
    select environment from ${table}
     where project_id = projects.id and environment = environment.environment and id = $1 limit 1) found
 limit 1`;

/** Returns the scope of this id, or null. For the operator's command line only. */
export async function findScopeOfId(
  db: Queryable,
  table: OwnedTable,
  id: string,
): Promise<Scope | null> {
  const [row] = await db.query<Scope>(findScope(table), [id, ENVIRONMENTS]);
  return row ?? null;
}

export async function findProject(db: Queryable, id: string): Promise<Project | null> {
  const [row] = await db.query<Project>(`select ${COLUMNS} from projects where id = $1`, [id]);
  return row ?? null;
}

export async function findOrganizationName(db: Queryable, id: string): Promise<string | null> {
  const [row] = await db.query<{ name: string }>('select name from organizations where id = $1', [
    id,
  ]);
  return row?.name ?? null;
}

const RENAME = `update projects set name = $3 where id = $1 and organization_id = $2 returning ${COLUMNS}`;

export async function renameProject(
  db: Queryable,
  { id, organizationId, name }: Pick<Project, 'id' | 'organizationId' | 'name'>,
): Promise<Project | null> {
  return (await db.query<Project>(RENAME, [id, organizationId, name]))[0] ?? null;
}
