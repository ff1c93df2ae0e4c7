/**
 * Decides which member an account at the identity provider is, and with which role.
 *
 * 1. The account that the member signed in with before: by issuer and subject, whatever its address is now.
 * 2. A member with the same address, or an open invitation for it. The provider must have verified the address, because
 *    an account with a made-up address would otherwise get the member's mail.
 * 3. With LETTERHAUS_OIDC_JOIN=roles, a new member.
 *
 * With LETTERHAUS_OIDC_ROLES, every sign-in sets the role that the groups have. An account without such a group is
 * refused, and its sessions end. The only owner stays owner. All changes are in the audit log of the same commit.
 */
import type { OidcConfig } from '../../config/oidc.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import type { ProjectRoles, Role } from '../../core/member-roles.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { type Address, addressKey, localPartOf, parseAddress } from '../../mail/address.ts';
import { addAuditEvent } from '../audit/audit-store.ts';
import { checkMembersMax } from '../limits/maximum-store.ts';
import { useInvitationFor } from '../members/invitation-store.ts';
import {
  changeRole,
  createMember,
  findMember,
  findMemberByEmail,
  findOrganization,
  hasOwner,
  isOnlyOwner,
  lockMembers,
  type Member,
} from '../members/member-store.ts';
import { endSessions } from '../sessions/session-store.ts';
import { unusablePassword } from '../sign-in/passwords.ts';
import { type Account, roleOf } from './claims.ts';
import { linkIdentity, useIdentity } from './identity-store.ts';

type Context = { db: Database; config: OidcConfig };
type Change = { tx: Queryable; config: OidcConfig; network: string };
type Admitted = Pick<Member, 'id' | 'organizationId'>;

/** @param origin.network for the audit log */
export function admit(
  { db, config }: Context,
  account: Account,
  { network }: { network: string },
): Promise<Admitted | Refusal> {
  const { roles } = config;
  const role = roles === null ? null : roleOf(account.groups, roles);
  return db.transaction(async (tx) => {
    await lockMembers(tx);
    const change = { tx, config, network };
    const linked = await useIdentity(tx, account);
    if (roles !== null && role === null) {
      if (linked !== null) await endSessions(tx, linked.id, null);
      return noRole(config);
    }
    const member = linked ?? (await linkFirst(change, account, role));
    if (isRefusal(member)) return member;
    if (role !== null) await setRole(change, member, role);
    return member;
  });
}

async function linkFirst(
  change: Change,
  account: Account,
  role: Role | null,
): Promise<Admitted | Refusal> {
  const { tx, config } = change;
  const address = account.email === null ? null : parseAddress(account.email);
  if (address === null) return noAddress(config);
  if (!account.isEmailVerified && !config.trustsEmail) return notVerified(config);
  const known = await findMemberByEmail(tx, addressKey(address));
  const member = known ?? (await join(change, { account, address, role }));
  if (isRefusal(member)) return member;
  if (!(await linkIdentity(tx, account, member.id))) return otherAccount(config);
  await record(change, member, 'linkOidc');
  return member;
}

async function join(
  change: Change,
  { account, address, role }: { account: Account; address: Address; role: Role | null },
): Promise<Admitted | Refusal> {
  const { tx, config } = change;
  const emailKey = addressKey(address);
  const place =
    (await useInvitationFor(tx, emailKey)) ?? (await placeByRole(change, { emailKey, role }));
  if (place === null) return notInvited(config, address);
  if (place.role !== 'owner' && !(await hasOwner(tx))) return notInvited(config, address);
  const member = await createMember(tx, {
    organizationId: place.organizationId,
    email: address,
    emailKey,
    name: account.name ?? localPartOf(address),
    role: role ?? place.role,
    // Roles in some projects are those of an invitation; a role of groups is one for all projects.
    projectRoles: role === null ? place.projectRoles : null,
    password: unusablePassword(),
    hasPassword: false,
  });
  if (member === null) throw new Error('the address has a member, although members are locked');
  await record(change, member, 'joinByOidc');
  return member;
}

async function placeByRole(
  { tx, config }: Change,
  { emailKey, role }: { emailKey: string; role: Role | null },
): Promise<{ organizationId: string; role: Role; projectRoles: ProjectRoles } | null> {
  if (config.admits !== 'mapped' || role === null) return null;
  const organizationId = await findOrganization(tx);
  if (organizationId === null) return null;
  await checkMembersMax(tx, { organizationId, emailKey });
  return { organizationId, role, projectRoles: null };
}

async function setRole(change: Change, { id, organizationId }: Admitted, role: Role) {
  const { tx } = change;
  const member = await findMember(tx, { organizationId, id });
  if (member === null || (await isOnlyOwner(tx, member))) return;
  if (member.role === role && member.projectRoles === null) return;
  await changeRole(tx, { id, role, projectRoles: null });
  await record(change, member, 'updateMember');
}

/** The actor is the provider, under its name. */
async function record(
  { tx, config, network }: Change,
  { id: target, organizationId }: Admitted,
  action: 'linkOidc' | 'joinByOidc' | 'updateMember',
): Promise<void> {
  await addAuditEvent(tx, organizationId, {
    action,
    actorType: 'command',
    actorId: null,
    actorName: `identity provider ${config.name}`,
    projectId: null,
    environment: null,
    target,
    network,
    requestId: null,
  });
}

function refusal(message: string): Refusal {
  return { refused: 'authentication_error', message };
}

function noRole({ name }: OidcConfig): Refusal {
  return refusal(
    `Your account at ${name} is in no group that may use Letterhaus; ask its administrator.`,
  );
}

function noAddress({ name }: OidcConfig): Refusal {
  return refusal(
    `${name} sends no email address of your account, so it cannot be matched; ask its administrator.`,
  );
}

function notVerified({ name }: OidcConfig): Refusal {
  return refusal(
    `${name} has not verified the email address of your account. Verify it there, then begin again.`,
  );
}

function otherAccount({ name }: OidcConfig): Refusal {
  return refusal(
    `The member with your address signs in with another account of ${name}; ask the operator to remove that link.`,
  );
}

function notInvited({ name }: OidcConfig, address: Address): Refusal {
  return refusal(
    `No member of Letterhaus has the address ${address} of your account at ${name}; ask for an invitation.`,
  );
}
