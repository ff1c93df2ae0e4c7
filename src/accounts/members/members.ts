/**
 * Changes members and their roles, in the organization or in some of its projects. Admins manage all members except
 * owners, and cannot create owners. An organization always has an owner.
 */
import { ANY_STATE, entityTagOf, type IsExpected } from '../../core/entity-tag.ts';
import { CHANGED_SINCE, isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import {
  includesRole,
  type ProjectRole,
  type ProjectRoles,
  type Role,
} from '../../core/member-roles.ts';
import { addressKey, explainAddress, parseAddress } from '../../mail/address.ts';
import { createInvitation, type Invitation } from './invitation-store.ts';
import { checkMembersMax } from '../limits/maximum-store.ts';
import {
  changeRole,
  deleteMember,
  findMember,
  findMemberByEmail,
  isOnlyOwner,
  lockMembers,
  type Member,
} from './member-store.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { listProjects } from '../projects/project-store.ts';
import { makeToken } from '../sign-in/tokens.ts';

/**
 * The member who makes the change; `memberId` is null for the operator of the machine. The role is read in the
 * transaction, because another member may change it at the same time.
 */
export type Actor = { organizationId: string; memberId: string | null };

const NO_MEMBER: Refusal = {
  refused: 'not_found',
  message: 'There is no member with this id.',
};
const ONLY_ADMINS: Refusal = {
  refused: 'authorization_error',
  message: 'Only an admin or an owner may change members.',
};
const ONLY_OWNERS: Refusal = {
  refused: 'authorization_error',
  message: 'Only an owner may create, change or remove an owner.',
};
const LAST_OWNER: Refusal = {
  refused: 'conflict',
  message: 'This is the only owner; make another member an owner first.',
};

const LOCAL_OPERATOR = { role: 'owner' } as const;

const IS_MEMBER = 'A member signs in with this address already.';
export const ALREADY_MEMBER: Refusal = {
  refused: 'conflict',
  message: IS_MEMBER,
  details: [{ field: 'email', message: IS_MEMBER }],
};

/** Rights of a member: a role in all projects, or roles in some. null as `projects` means all projects. */
export type RequestedRights = {
  role?: Role | undefined;
  projects?: readonly { id: string; role: ProjectRole }[] | null | undefined;
};

type Rights = { role: Role; projectRoles: ProjectRoles };

const NO_ROLE = refuseFields([
  { field: 'role', message: 'is required, unless projects has roles' },
]);
const ROLE_AND_PROJECTS = refuseFields([
  { field: 'role', message: 'holds in all projects: leave it out, or give null as projects' },
]);

/**
 * Returns the rights to store: a role in all projects, or roles in some, with which the role in the organization is
 * viewer. Nobody gets all projects by leaving something out.
 * @param before the present rights, or null for an invitation, which has none
 */
async function parseRights(
  db: Queryable,
  organizationId: string,
  { role, projects, before }: RequestedRights & { before: Rights | null },
): Promise<Rights | Refusal> {
  const present = before?.projectRoles ?? null;
  if (projects === undefined || projects === null) {
    if (role === undefined)
      return projects === null && before ? { ...before, projectRoles: null } : NO_ROLE;
    const isLimited = projects === undefined && present !== null;
    return isLimited ? ROLE_AND_PROJECTS : { role, projectRoles: null };
  }
  if (role !== undefined) return ROLE_AND_PROJECTS;
  const known = new Set((await listProjects(db, organizationId)).map(({ id }) => id));
  const seen = new Set<string>();
  const problems = projects.flatMap(({ id }, at) => {
    const field = `projects[${at}].id`;
    if (!known.has(id)) return { field, message: 'is not a project of this organization' };
    if (seen.has(id)) return { field, message: 'is listed twice' };
    seen.add(id);
    return [];
  });
  if (problems.length > 0) return refuseFields(problems);
  const projectRoles = Object.fromEntries(projects.map((one) => [one.id, one.role]));
  return { role: 'viewer', projectRoles };
}

export function setRole(
  db: Database,
  actor: Actor,
  { id, ...requested }: RequestedRights & { id: string },
  isExpected = ANY_STATE,
): Promise<Member | Refusal> {
  return db.transaction(async (tx) => {
    const locked = await lockMember(tx, actor, { id, isExpected });
    if (isRefusal(locked)) return locked;
    const { member, actorRole } = locked;
    const rights = await parseRights(tx, actor.organizationId, { ...requested, before: member });
    if (isRefusal(rights)) return rights;
    const { role, projectRoles } = rights;
    if (role === 'owner' && actorRole !== 'owner') return ONLY_OWNERS;
    if (role !== 'owner' && (await isOnlyOwner(tx, member))) return LAST_OWNER;
    return (await changeRole(tx, { id, role, projectRoles })) ?? NO_MEMBER;
  });
}

/** Removes a member, and ends their sessions and the keys that they send with. API keys that they created stay. */
export function removeMember(
  db: Database,
  actor: Actor,
  id: string,
  isExpected = ANY_STATE,
): Promise<{ removed: true } | Refusal> {
  return db.transaction(async (tx) => {
    const locked = await lockMember(tx, actor, { id, isExpected });
    if (isRefusal(locked)) return locked;
    const { member } = locked;
    if (await isOnlyOwner(tx, member)) return LAST_OWNER;
    await deleteMember(tx, id);
    return { removed: true as const };
  });
}

/** Locks all members and returns this one and the actor's role; refuses when the actor may not change it. */
async function lockMember(
  tx: Queryable,
  { organizationId, memberId }: Actor,
  { id, isExpected }: { id: string; isExpected: IsExpected },
): Promise<{ member: Member; actorRole: Role } | Refusal> {
  await lockMembers(tx);
  const actor =
    memberId === null ? LOCAL_OPERATOR : await findMember(tx, { organizationId, id: memberId });
  const member = await findMember(tx, { organizationId, id });
  if (actor === null || !includesRole(actor.role, 'admin')) return ONLY_ADMINS;
  if (member === null) return NO_MEMBER;
  if (member.role === 'owner' && actor.role !== 'owner') return ONLY_OWNERS;
  if (!isExpected(tagOfMember(member))) return CHANGED_SINCE;
  return { member, actorRole: actor.role };
}

/** Changes with the rights of the member. */
export function tagOfMember({ id, role, projectRoles }: Member): string {
  const roles =
    projectRoles && Object.entries(projectRoles).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entityTagOf({ id, role, roles });
}

/** `link` is a path for the invited person. It is returned only here. */
export type InvitationWithLink = { invitation: Invitation; link: string };

export async function inviteMember(
  db: Database,
  { organizationId, role: actorRole }: { organizationId: string; role: Role },
  { email, ...requested }: RequestedRights & { email: string },
): Promise<InvitationWithLink | Refusal> {
  const address = parseAddress(email.trim());
  if (address === null) {
    return refuseFields([{ field: 'email', message: explainAddress(email) }]);
  }
  const rights = await parseRights(db, organizationId, { ...requested, before: null });
  if (isRefusal(rights)) return rights;
  if (rights.role === 'owner' && actorRole !== 'owner') return ONLY_OWNERS;
  const emailKey = addressKey(address);
  if ((await findMemberByEmail(db, emailKey)) !== null) return ALREADY_MEMBER;
  await checkMembersMax(db, { organizationId, emailKey });
  const { text, sha256 } = makeToken();
  const newInvitation = { organizationId, email: address, emailKey, ...rights, sha256 };
  const invitation = await createInvitation(db, newInvitation);
  return { invitation, link: `/sign-in#invitation=${text}` };
}
