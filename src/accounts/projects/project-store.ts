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

// The limit's rows exist from the start, because the accept statement only locks existing rows.
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

const LIST = `select ${COLUMNS} from projects where organization_id = $1 order by id desc`;

export async function listProjects(db: Queryable, organizationId: string): Promise<Project[]> {
  return db.query<Project>(LIST, [organizationId]);
}

const LIST_ALL = `select ${COLUMNS} from projects where id <> '${OPERATOR_PROJECT_ID}' order by id`;

/** Every project of this installation except the operator's, oldest first; only for the operator's command line. */
export async function listAllProjects(db: Queryable): Promise<Project[]> {
  return db.query<Project>(LIST_ALL);
}

// Its organization has the same id and no members. It sends nothing, so it has no limits.
const MAKE_OPERATORS = `
with organization as (
  insert into organizations (id, name, created_at) values ($1, $2, app_now()) on conflict (id) do nothing
)
insert into projects (id, organization_id, name, created_at) values ($1, $1, $2, app_now())
on conflict (id) do update set name = excluded.name
returning ${COLUMNS}`;

/** The project that events of the installation belong to, made when it gets its first key or webhook. */
export async function makeOperatorProject(db: Queryable): Promise<Project> {
  const [row] = await db.query<Project>(MAKE_OPERATORS, [OPERATOR_PROJECT_ID, 'operator']);
  if (!row) throw new Error('the project of the operator was not returned');
  return row;
}

export type Owned = 'api_keys' | 'domains' | 'emails' | 'webhook_endpoints';

// Project by project, because the index has the id after project and environment.
const findOwner = (table: Owned) => `
select p.id as "projectId", t.environment
  from projects p cross join unnest($2::text[]) environment
 cross join lateral (
    select environment from ${table}
     where project_id = p.id and environment = environment.environment and id = $1 limit 1) t
 limit 1`;

/** The scope of this id, or null; only for the operator's command line. */
export async function ownerOf(db: Queryable, table: Owned, id: string): Promise<Scope | null> {
  const [row] = await db.query<Scope>(findOwner(table), [id, ENVIRONMENTS]);
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

/** null: the organization has no such project. */
export async function renameProject(
  db: Queryable,
  { id, organizationId, name }: Pick<Project, 'id' | 'organizationId' | 'name'>,
): Promise<Project | null> {
  const RENAME = `update projects set name = $3 where id = $1 and organization_id = $2 returning ${COLUMNS}`;
  return (await db.query<Project>(RENAME, [id, organizationId, name]))[0] ?? null;
}
