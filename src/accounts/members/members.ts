/**
 * Changes members and their roles. Admins manage all members except owners, and cannot create owners. An
 * organization always has an owner.
 */
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import { includesRole, type Role } from '../../core/member-roles.ts';
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

export const ALREADY_MEMBER: Refusal = {
  refused: 'conflict',
  message: 'A member signs in with this address already.',
};

export function setRole(
  db: Database,
  actor: Actor,
  { id, role }: { id: string; role: Role },
): Promise<Member | Refusal> {
  return db.transaction(async (tx) => {
    const locked = await lockMember(tx, actor, id);
    if (isRefusal(locked)) return locked;
    const { member, actorRole } = locked;
    if (role === 'owner' && actorRole !== 'owner') return ONLY_OWNERS;
    if (role !== 'owner' && (await isOnlyOwner(tx, member))) return LAST_OWNER;
    return (await changeRole(tx, { id, role })) ?? NO_MEMBER;
  });
}

/** Removes a member, and ends their sessions and the keys that they send with. API keys that they created stay. */
export function removeMember(
  db: Database,
  actor: Actor,
  id: string,
): Promise<{ removed: true } | Refusal> {
  return db.transaction(async (tx) => {
    const locked = await lockMember(tx, actor, id);
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
  id: string,
): Promise<{ member: Member; actorRole: Role } | Refusal> {
  await lockMembers(tx);
  const actor =
    memberId === null ? LOCAL_OPERATOR : await findMember(tx, { organizationId, id: memberId });
  const member = await findMember(tx, { organizationId, id });
  if (actor === null || !includesRole(actor.role, 'admin')) return ONLY_ADMINS;
  if (member === null) return NO_MEMBER;
  if (member.role === 'owner' && actor.role !== 'owner') return ONLY_OWNERS;
  return { member, actorRole: actor.role };
}

/** `link` is a path for the invited person. It is returned only here. */
export type InvitationWithLink = { invitation: Invitation; link: string };

export async function inviteMember(
  db: Database,
  { organizationId, role: actorRole }: { organizationId: string; role: Role },
  { email, role }: { email: string; role: Role },
): Promise<InvitationWithLink | Refusal> {
  const address = parseAddress(email.trim());
  if (address === null) {
    return refuseFields([{ field: 'email', message: explainAddress(email) }]);
  }
  if (role === 'owner' && actorRole !== 'owner') return ONLY_OWNERS;
  const emailKey = addressKey(address);
  if ((await findMemberByEmail(db, emailKey)) !== null) return ALREADY_MEMBER;
  await checkMembersMax(db, { organizationId, emailKey });
  const { text, sha256 } = makeToken();
  const newInvitation = { organizationId, email: address, emailKey, role, sha256 };
  const invitation = await createInvitation(db, newInvitation);
  return { invitation, link: `/sign-in#invitation=${text}` };
}
