/** Invitations to an organization, until they are accepted, revoked or expired. */
import type { ProjectRoles, Role } from '../../core/member-roles.ts';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../../database/page.ts';
import { batchDelete } from '../../database/expiry.ts';

export const INVITATION_DAYS = 7;

export type Invitation = {
  id: string;
  organizationId: string;
  email: string;
  role: Role;
  projectRoles: ProjectRoles;
  createdAt: Date;
  expiresAt: Date;
};

const COLUMNS = `id, organization_id as "organizationId", email, role, project_roles as "projectRoles",
       created_at as "createdAt", expires_at as "expiresAt"`;

const CREATE = `
insert into invitations (id, organization_id, email, email_key, role, sha256, created_at, expires_at, project_roles)
values ($1, $2, $3, $4, $5, $6, app_now(), app_now() + interval '${INVITATION_DAYS} days', $7::jsonb)
on conflict (organization_id, email_key) do update
   set id = excluded.id, email = excluded.email, role = excluded.role, sha256 = excluded.sha256,
       created_at = excluded.created_at, expires_at = excluded.expires_at,
       project_roles = excluded.project_roles
returning ${COLUMNS}`;

/** Creates an invitation, which replaces an earlier one for this address. */
export async function createInvitation(
  db: Queryable,
  invitation: Pick<Invitation, 'organizationId' | 'email' | 'role' | 'projectRoles'> & {
    emailKey: string;
    sha256: Buffer;
  },
): Promise<Invitation> {
  const { organizationId, email, emailKey, role, projectRoles, sha256 } = invitation;
  const roles = projectRoles && JSON.stringify(projectRoles);
  const values = [newId(), organizationId, email, emailKey, role, sha256, roles];
  const [row] = await db.query<Invitation>(CREATE, values);
  if (!row) throw new Error('the new invitation was not returned');
  return row;
}

const FIND = `select ${COLUMNS} from invitations where sha256 = $1 and expires_at > app_now()`;

export async function findInvitation(db: Queryable, sha256: Buffer): Promise<Invitation | null> {
  return (await db.query<Invitation>(FIND, [sha256]))[0] ?? null;
}

const USE = `
delete from invitations where sha256 = $1 and expires_at > app_now() returning ${COLUMNS}`;

/** Deletes and returns the invitation. Of several concurrent uses, one gets it and the others get null. */
export async function useInvitation(db: Queryable, sha256: Buffer): Promise<Invitation | null> {
  return (await db.query<Invitation>(USE, [sha256]))[0] ?? null;
}

const USE_FOR = `
delete from invitations where id = (
  select id from invitations where email_key = $1 and expires_at > app_now() order by id desc limit 1)
returning ${COLUMNS}`;

/** Deletes and returns the newest open invitation of an address that the caller has verified. */
export async function useInvitationFor(
  db: Queryable,
  emailKey: string,
): Promise<Invitation | null> {
  return (await db.query<Invitation>(USE_FOR, [emailKey]))[0] ?? null;
}

const LIST = `
select ${COLUMNS} from invitations
 where organization_id = $1 and expires_at > app_now()
   and ($3::uuid is null or id < $3) and ($4::uuid is null or id > $4)
 order by case when $4::uuid is null then id end desc, id
 limit $2`;

export async function listInvitations(
  db: Queryable,
  organizationId: string,
  page: Page,
): Promise<PageResult<Invitation>> {
  const values = [organizationId, page.limit + 1, page.after, page.before];
  return cutToPage(await db.query<Invitation>(LIST, values), page);
}

const REVOKE = `
delete from invitations
 where organization_id = $1 and id = $2 and ($3 or role <> 'owner') and expires_at > app_now()
returning 1`;

/**
 * Revokes an invitation. Returns false when it does not exist, or is for an owner and `mayRevokeOwners` is false.
 */
export async function revokeInvitation(
  db: Queryable,
  {
    organizationId,
    id,
    mayRevokeOwners,
  }: { organizationId: string; id: string; mayRevokeOwners: boolean },
): Promise<boolean> {
  return (await db.query(REVOKE, [organizationId, id, mayRevokeOwners])).length > 0;
}

export const deleteExpiredInvitations = batchDelete('invitations', 'expires_at <= app_now()');

const PROJECT_NAMES = `select id, name from projects where id = any($1::uuid[]) order by name, id`;

/** Returns the projects that exist, in the order of their names. */
export function listProjectNames(
  db: Queryable,
  ids: readonly string[],
): Promise<{ id: string; name: string }[]> {
  return db.query(PROJECT_NAMES, [ids]);
}
