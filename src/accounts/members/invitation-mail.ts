/**
 * Mails an invitation, as ordinary live mail of the inviting organization, from postmaster at its oldest verified live
 * domain. Without such a domain, or without a public URL that the link could name, the inviter passes the link on.
 *
 * The link lets its reader join with the invited role, and other members can read the mail of their projects. So the
 * service never shows the content of this mail (emails/email-store.ts). It has no html, so no link in it is tracked.
 */
import type { Logger } from 'pino';
import { type AcceptEmail, acceptOwnMail } from '../../accept/accept.ts';
import { parseDraft } from '../../accept/draft.ts';
import type { Config } from '../../config/config.ts';
import { isRefusal } from '../../core/refusals.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { CONCEALED_METADATA } from '../../emails/email-store.ts';
import type { Address } from '../../mail/address.ts';
import { findOperatorSender, findOrCreateMailKey } from '../../operator/operator-mail-store.ts';
import { INVITATION_DAYS, type Invitation, listProjectNames } from './invitation-store.ts';

/** The key has this name in the lists of keys and statistics. */
const KEY_NAME = 'Letterhaus, invitations';

type InvitationMailContext = {
  db: Database;
  accept: AcceptEmail;
  config: Pick<Config, 'publicUrl' | 'allowPrivateNetworks'>;
  log: Pick<Logger, 'warn'>;
};

/** `inviter`: null for the command line. */
export type InvitationToMail = {
  invitation: Invitation;
  /** The path of the link. */
  link: string;
  inviter: { name: string; email: string } | null;
};

/** Returns whether the mail was accepted for sending. Never throws: the invitation exists, whatever happens here. */
export async function mailInvitation(
  context: InvitationMailContext,
  toMail: InvitationToMail,
): Promise<boolean> {
  try {
    return await send(context, toMail);
  } catch (error) {
    const { message } = error as Error;
    context.log.warn(
      { invitation_id: toMail.invitation.id, reason: message },
      'an invitation could not be mailed; pass its link on',
    );
    return false;
  }
}

async function send(
  { db, accept, config, log }: InvitationMailContext,
  { invitation, link, inviter }: InvitationToMail,
): Promise<boolean> {
  const { publicUrl, allowPrivateNetworks } = config;
  const { id, organizationId } = invitation;
  // An invitation has an address that parseAddress accepted.
  const to = invitation.email as Address;
  if (publicUrl === null) return false;
  const sender = await findOperatorSender(db, { domain: null, to, organizationId });
  if (sender === null || sender.isSuppressed) return false;
  const draft = parseDraft(
    {
      from: `Letterhaus <postmaster@${sender.domain}>`,
      to,
      ...composeText({ url: publicUrl + link, inviter, role: await roleText(db, invitation) }),
      headers: { 'Auto-Submitted': 'auto-generated' },
      metadata: CONCEALED_METADATA,
    },
    { environment: 'live', allowPrivateNetworks, isOwnMail: true },
  );
  if (isRefusal(draft)) throw new Error(draft.message);
  const keyId = await findOrCreateMailKey(db, sender, KEY_NAME);
  const name = `invitation-${id}`;
  const result = await acceptOwnMail(accept, { ...sender, keyId }, { draft, name });
  if (result.kind === 'accepted') return true;
  const reason = 'message' in result ? result.message : result.kind;
  log.warn({ invitation_id: id, reason }, 'an invitation was not mailed; pass its link on');
  return false;
}

/** Returns the role, or the roles in some projects by the names of these. */
async function roleText(db: Queryable, { role, projectRoles }: Invitation): Promise<string> {
  if (projectRoles === null) return `the role ${role}`;
  const named = await listProjectNames(db, Object.keys(projectRoles));
  const roles = named.map(({ id, name }) => `${projectRoles[id]} in ${name}`);
  return roles.length === 0 ? 'no project yet' : `the role ${roles.join(', ')}`;
}

function composeText({
  url,
  inviter,
  role,
}: {
  url: string;
  inviter: InvitationToMail['inviter'];
  role: string;
}): { subject: string; text: string } {
  const who = inviter === null ? 'The operator' : `${inviter.name} (${inviter.email})`;
  const name = inviter?.name ?? 'The operator';
  const paragraphs = [
    `${who} invites you to the email service at ${new URL(url).host}, with ${role}.`,
    `Open this link to create your account. It works once, for ${INVITATION_DAYS} days:`,
    url,
    'If you did not expect this invitation, ignore this email. Do not forward it: the link lets its reader in.',
  ];
  return { subject: `${name} invites you to Letterhaus`, text: `${paragraphs.join('\n\n')}\n` };
}
