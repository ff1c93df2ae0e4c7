/**
 * Templates and their versions. The newest version is a draft until it is published. A change of one's own draft
 * updates it; a change of a published version, or of a draft of somebody else, creates the next one. A published
 * version never changes. variables.ts validates variables and liquid.ts renders.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { isId, newId } from '../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../database/page.ts';

export const VARIABLE_TYPES = ['string', 'number', 'boolean', 'list', 'object'] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];

/** `default` applies when a request omits the variable. Without a default the variable is required. */
export type TemplateVariable = { name: string; type: VariableType; default?: unknown };

export type TemplateContent = {
  subject: string;
  html: string | null;
  text: string | null;
  variables: readonly TemplateVariable[];
};

export type TemplateHead = {
  id: string;
  name: string;
  alias: string | null;
  latestVersion: number;
  /** null until a version is published. */
  publishedVersion: number | null;
  createdAt: Date;
  updatedAt: Date;
};

export type TemplateVersion = TemplateContent & {
  version: number;
  createdAt: Date;
  /** When it was first published; null for a draft. */
  publishedAt: Date | null;
  /** Address of the member who saved it last; null for an API key, a command and an earlier build. */
  savedBy: string | null;
  savedAt: Date | null;
};

export const TEMPLATES_MAX = 1_000;
/** Limit for each template. Older versions are removed, except the published one. */
export const VERSIONS_KEPT = 50;

const HEAD = `id, name, alias, latest_version as "latestVersion",
       published_version as "publishedVersion", created_at as "createdAt",
       updated_at as "updatedAt"`;

const VERSION = `version, subject, html, text, variables, created_at as "createdAt",
       published_at as "publishedAt", saved_by as "savedBy", saved_at as "savedAt"`;

const CREATE = `
with made as (
  insert into templates (project_id, environment, id, name, alias, latest_version, created_at,
                         updated_at)
  select $1, $2, $3, $4, $5, 1, app_now(), app_now()
   where (select count(*) from templates where project_id = $1 and environment = $2)
         < ${TEMPLATES_MAX}
  on conflict (project_id, environment, alias) where alias is not null do nothing
  returning *
),
first_version as (
  insert into template_versions (project_id, template_id, version, subject, html, text, variables,
                                 created_at, saved_by, saved_at)
  select project_id, id, 1, $6, $7, $8, $9, created_at, $10, created_at from made
)
select ${HEAD} from made`;

/** Returns null when the alias is taken or the limit on templates is reached. */
export async function createTemplate(
  db: Queryable,
  scope: Scope,
  template: Pick<TemplateHead, 'name' | 'alias'> & TemplateContent & { savedBy: string | null },
): Promise<TemplateHead | null> {
  const { name, alias, savedBy } = template;
  const values = [newId(), name, alias, ...contentOf(template), savedBy];
  const found = await db.query<TemplateHead>(CREATE, [
    scope.projectId,
    scope.environment,
    ...values,
  ]);
  return found[0] ?? null;
}

const LIST = `
select ${HEAD} from templates
 where project_id = $1 and environment = $2
   and ($4::uuid is null or id < $4) and ($5::uuid is null or id > $5)
   and ($6::text is null or strpos(lower(name), lower($6)) > 0 or strpos(alias, lower($6)) > 0)
 order by case when $5::uuid is null then id end desc, id
 limit $3`;

/** @param part text in the name or alias, in any case; null lists all */
export async function listTemplates(
  db: Queryable,
  { projectId, environment }: Scope,
  { part = null, ...page }: Page & { part?: string | null },
): Promise<PageResult<TemplateHead>> {
  const values = [projectId, environment, page.limit + 1, page.after, page.before, part];
  return cutToPage(await db.query<TemplateHead>(LIST, values), page);
}

const FIND = `
select ${HEAD} from templates
 where project_id = $1 and environment = $2 and (id = $3::uuid or alias = $4)`;

export async function findTemplate(
  db: Queryable,
  scope: Scope,
  idOrAlias: string,
): Promise<TemplateHead | null> {
  const [row] = await db.query<TemplateHead>(FIND, keyOf(scope, idOrAlias));
  return row ?? null;
}

export async function lockTemplate(
  db: Queryable,
  scope: Scope,
  idOrAlias: string,
): Promise<TemplateHead | null> {
  const [row] = await db.query<TemplateHead>(`${FIND} for update`, keyOf(scope, idOrAlias));
  return row ?? null;
}

export const ALIAS = /^[a-z][a-z0-9_-]{0,63}$/;

/** Finds nothing unless the name is an id or alias. PostgreSQL refuses NUL in a text. */
function keyOf({ projectId, environment }: Scope, idOrAlias: string): unknown[] {
  const id = isId(idOrAlias) ? idOrAlias : null;
  return [projectId, environment, id, id === null && ALIAS.test(idOrAlias) ? idOrAlias : null];
}

const FIND_VERSION = `
select ${VERSION} from template_versions
 where project_id = $1 and template_id = $2 and version = $3`;

/** @param options.id must belong to a scope that the caller has checked */
export async function findVersion(
  db: Queryable,
  { projectId }: Scope,
  { id, version }: { id: string; version: number },
): Promise<TemplateVersion | null> {
  const [row] = await db.query<TemplateVersion>(FIND_VERSION, [projectId, id, version]);
  return row ?? null;
}

const LIST_VERSIONS = `
select ${VERSION.replace('html, text, variables,', '')} from template_versions
 where project_id = $1 and template_id = $2
 order by version desc
 limit ${VERSIONS_KEPT + 1}`;

export type VersionSummary = Omit<TemplateVersion, 'html' | 'text' | 'variables'>;

export async function listVersions(
  db: Queryable,
  { projectId }: Scope,
  id: string,
): Promise<VersionSummary[]> {
  return db.query<VersionSummary>(LIST_VERSIONS, [projectId, id]);
}

const UPDATE = `
update templates set name = $4, alias = $5, updated_at = app_now()
 where project_id = $1 and environment = $2 and id = $3
   and not exists (select from templates other
                    where other.project_id = $1 and other.environment = $2 and other.alias = $5
                      and other.id <> $3)
returning ${HEAD}`;

/** Returns null when the alias is taken. */
export async function renameTemplate(
  db: Queryable,
  scope: Scope,
  { id, name, alias }: Pick<TemplateHead, 'id' | 'name' | 'alias'>,
): Promise<TemplateHead | null> {
  const values = [scope.projectId, scope.environment, id, name, alias];
  const [row] = await db.query<TemplateHead>(UPDATE, values);
  return row ?? null;
}

const WRITE_DRAFT = `
with head as (
  update templates set latest_version = $4, updated_at = app_now()
   where project_id = $1 and environment = $2 and id = $3
  returning *
),
written as (
  insert into template_versions (project_id, template_id, version, subject, html, text, variables,
                                 created_at, saved_by, saved_at)
  select project_id, id, $4, $5, $6, $7, $8, updated_at, $9, updated_at from head
  on conflict (project_id, template_id, version) do update
     set subject = excluded.subject, html = excluded.html, text = excluded.text,
         variables = excluded.variables, saved_by = excluded.saved_by, saved_at = excluded.saved_at
   where template_versions.published_at is null
),
removed as (
  delete from template_versions using head
   where template_versions.project_id = $1 and template_versions.template_id = $3
     and template_versions.version <= $4 - ${VERSIONS_KEPT}
     and template_versions.version is distinct from head.published_version
)
select ${HEAD} from head`;

/**
 * Needs a transaction that has locked the template.
 * @param draft.version the latest version, or the next one
 */
export async function writeDraft(
  db: Queryable,
  scope: Scope,
  draft: { id: string; version: number; savedBy: string | null } & TemplateContent,
): Promise<TemplateHead> {
  const values = [scope.projectId, scope.environment, draft.id, draft.version];
  const [row] = await db.query<TemplateHead>(WRITE_DRAFT, [
    ...values,
    ...contentOf(draft),
    draft.savedBy,
  ]);
  if (!row) throw new Error('the template is locked, so it is there');
  return row;
}

const PUBLISH = `
with published as (
  update template_versions set published_at = coalesce(published_at, app_now())
   where project_id = $1 and template_id = $3 and version = $4
  returning version
)
update templates set published_version = $4, updated_at = app_now()
 where project_id = $1 and environment = $2 and id = $3 and exists (select from published)
returning ${HEAD}`;

/** Needs a transaction that has locked the template. Returns null when the version does not exist. */
export async function publishVersion(
  db: Queryable,
  scope: Scope,
  { id, version }: { id: string; version: number },
): Promise<TemplateHead | null> {
  const values = [scope.projectId, scope.environment, id, version];
  const [row] = await db.query<TemplateHead>(PUBLISH, values);
  return row ?? null;
}

const DELETE = `
delete from templates
 where project_id = $1 and environment = $2 and (id = $3::uuid or alias = $4)
returning id`;

/**
 * Deletes a template with its versions.
 * @returns its id, or null when the template does not exist
 */
export async function deleteTemplate(
  db: Queryable,
  scope: Scope,
  idOrAlias: string,
): Promise<string | null> {
  const [row] = await db.query<{ id: string }>(DELETE, keyOf(scope, idOrAlias));
  return row?.id ?? null;
}

function contentOf({ subject, html, text, variables }: TemplateContent): unknown[] {
  return [subject, html, text, JSON.stringify(variables)];
}
