/**
 * Members of an organization: the people who sign in to the dashboard. An organization with members has an owner.
 * The first owner is created by a one-time link (accounts/sign-in/link-store.ts).
 */
import { OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import type { ProjectRoles, Role } from '../../core/member-roles.ts';
import { ADVISORY_LOCKS } from '../../database/advisory-locks.ts';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../../database/page.ts';

export type Member = {
  id: string;
  organizationId: string;
  email: string;
  name: string;
  /** In the organization. */
  role: Role;
  projectRoles: ProjectRoles;
  createdAt: Date;
  lastSignedIn: Date | null;
};

/** `password` is the stored form (accounts/sign-in/passwords.ts), `emailKey` the address in lower case. */
export type NewMember = Pick<Member, 'organizationId' | 'email' | 'name' | 'role'> & {
  projectRoles?: ProjectRoles;
  emailKey: string;
  password: string;
  /** False: `password` is a hash that no password matches (sign-in/passwords.ts unusablePassword). */
  hasPassword?: boolean;
};

/** `password` is the stored form. */
export type MemberWithPassword = Member & { password: string; hasPassword: boolean };

const COLUMNS = `id, organization_id as "organizationId", email, name, role, project_roles as "projectRoles",
       created_at as "createdAt", last_signed_in as "lastSignedIn"`;

/** Takes the member lock, so roles cannot change until this transaction ends. */
export async function lockMembers(tx: Queryable): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.members]);
}

const CREATE = `
insert into members (id, organization_id, email, email_key, name, role, password, has_password, project_roles,
                     created_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, app_now())
on conflict (email_key) do nothing
returning ${COLUMNS}`;

/** Returns null when another member has this address. */
export async function createMember(db: Queryable, member: NewMember): Promise<Member | null> {
  const { organizationId, email, emailKey, name, role, password, hasPassword = true } = member;
  const roles = jsonOf(member.projectRoles ?? null);
  const values = [
    newId(),
    organizationId,
    email,
    emailKey,
    name,
    role,
    password,
    hasPassword,
    roles,
  ];
  return (await db.query<Member>(CREATE, values))[0] ?? null;
}

function jsonOf(projectRoles: ProjectRoles): string | null {
  return projectRoles && JSON.stringify(projectRoles);
}

const HAS_OWNER = `select exists (select from members where role = 'owner') as found`;

export async function hasOwner(db: Queryable): Promise<boolean> {
  return (await db.query<{ found: boolean }>(HAS_OWNER))[0]?.found === true;
}

// Skips the organization of the operator's project, which has the same id as that project and no members.
const FIRST_ORGANIZATION = 'select id from organizations where id <> $1 order by id limit 1';

/** Returns the first organization of this installation; null when the service has never started. */
export async function findOrganization(db: Queryable): Promise<string | null> {
  const [row] = await db.query<{ id: string }>(FIRST_ORGANIZATION, [OPERATOR_PROJECT_ID]);
  return row?.id ?? null;
}

/** Returns the organization whose members are notified of a change: the first one runs the installation. */
export async function findResponsibleOrganization(db: Queryable, id: string): Promise<string> {
  if (id !== OPERATOR_PROJECT_ID) return id;
  return (await findOrganization(db)) ?? id;
}

const WITH_PASSWORD = `${COLUMNS}, password, has_password as "hasPassword"`;

const FIND_BY_EMAIL = `select ${WITH_PASSWORD} from members where email_key = $1`;

export async function findMemberByEmail(
  db: Queryable,
  emailKey: string,
): Promise<MemberWithPassword | null> {
  return (await db.query<MemberWithPassword>(FIND_BY_EMAIL, [emailKey]))[0] ?? null;
}

const FIND = `select ${WITH_PASSWORD} from members where id = $1`;

export async function findMemberById(
  db: Queryable,
  id: string,
): Promise<MemberWithPassword | null> {
  return (await db.query<MemberWithPassword>(FIND, [id]))[0] ?? null;
}

const LIST = `
select ${COLUMNS} from members
 where organization_id = $1
   and ($5::text[] is null or id = $6 or project_roles is null or project_roles ?| $5)
   and ($3::uuid is null or id < $3) and ($4::uuid is null or id > $4)
 order by case when $4::uuid is null then id end desc, id
 limit $2`;

/** Lists the members of the organization that the reader may know: with project roles, those of the same projects. */
export async function listMembers(
  db: Queryable,
  reader: { organizationId: string; memberId: string; projectRoles: ProjectRoles },
  page: Page,
): Promise<PageResult<Member>> {
  const { organizationId, memberId, projectRoles } = reader;
  const projects = projectRoles && Object.keys(projectRoles);
  const values = [organizationId, page.limit + 1, page.after, page.before, projects, memberId];
  return cutToPage(await db.query<Member>(LIST, values), page);
}

const FIND_IN = `select ${COLUMNS} from members where organization_id = $1 and id = $2`;

export async function findMember(
  db: Queryable,
  { organizationId, id }: Pick<Member, 'organizationId' | 'id'>,
): Promise<Member | null> {
  return (await db.query<Member>(FIND_IN, [organizationId, id]))[0] ?? null;
}

const IS_ONLY_OWNER = `
select not exists (select from members
                    where organization_id = $1 and role = 'owner' and id <> $2) as only`;

/** Returns whether the organization has no other owner. The caller has locked the members. */
export async function isOnlyOwner(
  tx: Queryable,
  { organizationId, id, role }: Pick<Member, 'organizationId' | 'id' | 'role'>,
): Promise<boolean> {
  if (role !== 'owner') return false;
  return (await tx.query<{ only: boolean }>(IS_ONLY_OWNER, [organizationId, id]))[0]?.only === true;
}

const CHANGE_ROLE = `
update members set role = $2, project_roles = $3::jsonb where id = $1 returning ${COLUMNS}`;

export async function changeRole(
  db: Queryable,
  { id, role, projectRoles }: Pick<Member, 'id' | 'role' | 'projectRoles'>,
): Promise<Member | null> {
  return (await db.query<Member>(CHANGE_ROLE, [id, role, jsonOf(projectRoles)]))[0] ?? null;
}

const DELETE = `
with keys as (
  update api_keys set revoked_at = app_now() from members, projects
   where members.id = $1 and projects.organization_id = members.organization_id
     and api_keys.project_id = projects.id and api_keys.environment in ('live', 'test')
     and api_keys.member_id = members.id and api_keys.revoked_at is null
)
delete from members where id = $1`;

/** Deletes the member. Ends their sessions, and revokes the keys that they send with (accounts/keys/key-store.ts). */
export async function deleteMember(db: Queryable, id: string): Promise<void> {
  await db.query(DELETE, [id]);
}

const SET_PASSWORD =
  'update members set password = $2, has_password = true where id = $1 returning 1';

export async function setPassword(db: Queryable, id: string, password: string): Promise<boolean> {
  return (await db.query(SET_PASSWORD, [id, password])).length > 0;
}
