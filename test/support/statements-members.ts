/** Statements that read and write members and their sessions. */
import * as audit from '../../src/accounts/audit/audit-store.ts';
import { newId } from '../../src/database/ids.ts';
import * as invitations from '../../src/accounts/members/invitation-store.ts';
import { findOrCreateMemberKey } from '../../src/accounts/keys/key-store.ts';
import { returnAuthAttempt } from '../../src/accounts/limits/limit-store.ts';
import * as views from '../../src/accounts/members/view-store.ts';
import * as members from '../../src/accounts/members/member-store.ts';
import { findOrganizationName, renameProject } from '../../src/accounts/projects/project-store.ts';
import * as sessions from '../../src/accounts/sessions/session-store.ts';
import * as identities from '../../src/accounts/oidc/identity-store.ts';
import * as passkeys from '../../src/accounts/passkeys/passkey-store.ts';
import * as policy from '../../src/accounts/sessions/policy-store.ts';
import * as challenges from '../../src/accounts/progress/challenge-store.ts';
import * as links from '../../src/accounts/sign-in/link-store.ts';
import * as totp from '../../src/accounts/sign-in/totp-store.ts';
import * as snoozes from '../../src/findings/snooze-store.ts';
import { oldPeriod } from './statements-counts.ts';
import type { Stage } from './statements.ts';

const PAGE = { limit: 20, after: null, before: null };

export async function useMembers({ db, sender }: Stage): Promise<void> {
  const organizationId = (await members.findOrganization(db))!;
  await findOrganizationName(db, organizationId);
  const scope = { projectId: sender.projectId, environment: 'test' } as const;
  await renameProject(db, { id: sender.projectId, organizationId, name: 'Renamed' });
  const email = `${newId()}@acme.test`;
  const who = { organizationId, email, emailKey: email, name: 'Jo', password: 'x' };
  const member = await db.transaction(async (tx) => {
    await members.lockMembers(tx);
    await members.hasOwner(tx);
    return (await members.createMember(tx, { ...who, role: 'owner' }))!;
  });
  await members.findMemberByEmail(db, email);
  await members.findMemberById(db, member.id);
  await members.setPassword(db, member.id, 'y');
  await findOrCreateMemberKey(db, scope, member);
  const someone = { organizationId, id: member.id };
  const reader = { organizationId, memberId: member.id, projectRoles: null };
  await members.listMembers(db, reader, PAGE);
  const projectRoles = { [scope.projectId]: 'viewer' } as const;
  await members.listMembers(db, { ...reader, projectRoles }, PAGE);
  await members.findMember(db, someone);
  await members.isOnlyOwner(db, member);
  await members.changeRole(db, { id: member.id, role: 'admin', projectRoles: null });
  await useInvitations({ db }, organizationId);
  await useAudit({ db, sender }, organizationId);
  await useTotp({ db }, member.id);
  await useSessions({ db, scope, memberId: member.id });
  const [sha256, purpose] = [Buffer.from(newId()), 'password'] as const;
  await links.createLink(db, { sha256, memberId: member.id, validForS: 60 });
  await links.findLink(db, { sha256, purpose });
  await links.useLink(db, { sha256, purpose });
  await links.deleteExpiredLinks(db, 500);
  await useIdentities({ db }, member.id);
  await usePasskeys({ db }, member.id);
  await useViews({ db, sender }, member.id);
  await members.deleteMember(db, member.id);
  await returnAuthAttempt(db, ['192.0.2.1'], { max: 20, windowS: 60 });
}

async function useIdentities({ db }: Pick<Stage, 'db'>, memberId: string): Promise<void> {
  const account = { issuer: 'https://login.test', subject: newId() };
  await identities.linkIdentity(db, account, memberId);
  await identities.useIdentity(db, account);
  await identities.hasIdentity(db, memberId);
  await identities.unlinkIdentity(db, memberId);
  await challenges.useChallenge(db, newId());
  await challenges.deleteExpiredChallenges(db, 500);
}

async function usePasskeys({ db }: Pick<Stage, 'db'>, memberId: string): Promise<void> {
  const credentialId = Buffer.from(newId());
  const key = { credentialId, publicKey: Buffer.from('key'), algorithm: -7, signCount: 0 };
  const options = { sessionId: newId(), max: 20 };
  const added = (await passkeys.addPasskey(db, { memberId, ...key, name: 'Phone' }, options))!;
  await passkeys.listPasskeys(db, memberId);
  await passkeys.listCredentialIds(db, memberId);
  await passkeys.findPasskey(db, credentialId);
  await passkeys.recordUse(db, added.id, 1);
  await policy.changePolicy(db, { isRequired: false, isExpected: () => true });
  await policy.requireSecondFactor(db);
  await policy.readPolicy(db);
  await policy.readFactors(db, memberId);
  await policy.makeSecondFactorOptional(db);
  await passkeys.removePasskey(db, memberId, added.id);
  await passkeys.removePasskeys(db, memberId);
}

async function useViews({ db, sender }: Pick<Stage, 'db' | 'sender'>, memberId: string) {
  const of = { memberId, projectId: sender.projectId };
  const view = await views.saveView(db, of, { name: 'Bounced', q: 'status:bounced' });
  await views.listViews(db, of);
  await views.deleteView(db, of, view!.id);
  const finding = 'bounces';
  await snoozes.saveSnooze(db, sender, { finding, until: new Date(Date.now() + 60_000), memberId });
  await snoozes.listSnoozes(db, sender);
  await snoozes.endSnooze(db, sender, finding);
}

async function useAudit({ db, sender }: Pick<Stage, 'db' | 'sender'>, organizationId: string) {
  await audit.addAuditEvent(db, organizationId, {
    action: 'createDomain',
    actorType: 'api_key',
    actorId: sender.keyId,
    actorName: null,
    projectId: sender.projectId,
    environment: 'test',
    target: newId(),
    network: '192.0.2.0',
    requestId: newId(),
  });
  for (const page of [PAGE, { ...PAGE, after: newId() }, { ...PAGE, before: sender.keyId }]) {
    await audit.listAuditEvents(db, organizationId, { page, filter: ANY_ENTRY });
  }
  const busyId = newId();
  await addNewerEntries({ db, sender }, busyId);
  for (const page of [PAGE, { ...PAGE, after: newId() }]) {
    const filter = { ...ANY_ENTRY, actions: null, ...oldPeriod() };
    await audit.listAuditEvents(db, busyId, { page, filter });
  }
  await audit.findTargetName(db, organizationId, { projectId: sender.projectId, id: newId() });
  await audit.deleteOldAuditEvents(db, 500);
}

/** Adds more entries than the bound of any reading. */
async function addNewerEntries(
  { db, sender }: Pick<Stage, 'db' | 'sender'>,
  organizationId: string,
): Promise<void> {
  const ids = Array.from({ length: 1_000 }, () => newId());
  await db.query(
    `insert into audit_log (organization_id, id, created_at, action, actor_type, actor_id)
     select $1, id, app_now(), 'createDomain', 'api_key', $2 from unnest($3::uuid[]) as input(id)`,
    [organizationId, sender.keyId, ids],
  );
}

const ANY_ENTRY = {
  actions: ['createDomain'],
  actorId: null,
  projectId: null,
  target: null,
  from: null,
  to: null,
};

async function useTotp({ db }: Pick<Stage, 'db'>, memberId: string): Promise<void> {
  const [secret, code] = [Buffer.from('sealed'), Buffer.from(newId())];
  await totp.prepareTotp(db, memberId, secret);
  await totp.enableTotp(db, memberId, { secret, period: 1, codes: [code] });
  await totp.findTotp(db, memberId);
  await totp.usePeriod(db, memberId, 2);
  await totp.useRecoveryCode(db, memberId, code);
  await totp.removeTotp(db, memberId);
}

async function useInvitations({ db }: Pick<Stage, 'db'>, organizationId: string): Promise<void> {
  const [email, sha256] = [`${newId()}@acme.test`, Buffer.from(newId())];
  const invited = {
    organizationId,
    email,
    emailKey: email,
    role: 'viewer',
    projectRoles: null,
    sha256,
  } as const;
  const { id } = await invitations.createInvitation(db, invited);
  await invitations.findInvitation(db, sha256);
  await invitations.listInvitations(db, organizationId, PAGE);
  await invitations.listProjectNames(db, [newId()]);
  await invitations.useInvitation(db, sha256);
  await invitations.useInvitationFor(db, email);
  await invitations.revokeInvitation(db, { organizationId, id, mayRevokeOwners: true });
  await invitations.deleteExpiredInvitations(db, 500);
}

async function useSessions({
  db,
  scope,
  memberId,
}: Pick<Stage, 'db'> & { scope: sessions.RequestedScope; memberId: string }): Promise<void> {
  const [sha256, after] = [Buffer.from(newId()), Buffer.from(newId())];
  const begun = { memberId, sha256, network: '192.0.2.0', userAgent: null, hasSecondFactor: false };
  const id = await sessions.createSession(db, begun);
  await sessions.findSession(db, sha256, scope);
  await sessions.findSessionById(db, id, scope);
  await sessions.touchSession(db, id, sha256);
  await sessions.replaceToken(db, id, { before: sha256, after });
  await sessions.listSessions(db, memberId);
  await sessions.endSession(db, memberId, id);
  await sessions.endSessions(db, memberId, null);
  await sessions.deleteExpiredSessions(db, 500);
}
