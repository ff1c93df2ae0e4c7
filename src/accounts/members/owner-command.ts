/**
 * `letterhaus owner`: prints one-time links. `link` creates the first owner, `reset` sets a member's password. Needs
 * shell access to the machine.
 */
import type { Command } from 'commander';
import { createOwnerLink, createPasswordLink } from '../sign-in/sign-in.ts';
import type { Config } from '../../config/config.ts';
import { addressKey } from '../../mail/address.ts';
import { ownUrl } from '../../service/machine/own-host.ts';
import { readRunning } from '../../database/embedded/lock.ts';
import { addAuditEvent } from '../audit/audit-store.ts';
import { findMemberByEmail, findOrganization } from './member-store.ts';
import type { Queryable } from '../../database/database.ts';
import { unlinkIdentity } from '../oidc/identity-store.ts';
import { removePasskeys } from '../passkeys/passkey-store.ts';
import { removeTotp } from '../sign-in/totp-store.ts';
import { addCommand, type Cli, type CommandResult, failure } from '../../cli/command.ts';
import { withExistingStore } from '../../cli/store.ts';

const VALIDITY = 'It works once, for 30 minutes.';

export function describeOwner(owner: Command, cli: Cli): void {
  addCommand(owner, cli, {
    name: 'link',
    about: 'print a link that creates the first owner',
    examples: ['owner link'],
    run: printOwnerLink,
  });
  addCommand(owner, cli, {
    name: 'reset',
    about: 'print a link that sets a new password, for a member who cannot sign in',
    examples: [
      'owner reset jo@acme.com',
      'owner reset jo@acme.com --remove-totp --remove-passkeys',
      'owner reset jo@acme.com --remove-oidc',
    ],
    run: printResetLink,
  })
    .argument('<email>', 'the address that the member signs in with')
    .option('--remove-totp', 'also switch off the second factor')
    .option('--remove-passkeys', 'also remove the passkeys of the member')
    .option('--remove-oidc', 'also remove the link to an account at the identity provider');
}

function printOwnerLink(cli: Cli): Promise<CommandResult> {
  return withExistingStore(cli, async ({ db, config }) => {
    const path = await createOwnerLink(db);
    if (path === null) {
      const message =
        'There is an owner already; `letterhaus owner reset <email>` sets a new password.';
      return failure({ refused: 'conflict', message });
    }
    const organizationId = await findOrganization(db);
    if (organizationId !== null)
      await recordCommand(db, organizationId, { action: 'makeOwnerLink' });
    return linkOutcome(siteUrl(config) + path, 'Open this link to create the owner');
  });
}

type ResetOptions = { removeTotp?: true; removePasskeys?: true; removeOidc?: true };

function printResetLink(
  cli: Cli,
  {
    removeTotp: removesTotp,
    removePasskeys: removesPasskeys,
    removeOidc: removesOidc,
  }: ResetOptions,
  [email]: [string],
): Promise<CommandResult> {
  return withExistingStore(cli, async ({ db, config }) => {
    const member = await findMemberByEmail(db, addressKey(email.trim()));
    if (member === null) {
      const message = `No member signs in with ${JSON.stringify(email)}; see letterhaus members list.`;
      return failure({ refused: 'not_found', message });
    }
    const path = await createPasswordLink(db, member.id);
    const { organizationId, id: target } = member;
    if (removesTotp) {
      await removeTotp(db, target);
      await recordCommand(db, organizationId, { action: 'removeTotp', target });
    }
    if (removesPasskeys && (await removePasskeys(db, target)) > 0) {
      await recordCommand(db, organizationId, { action: 'removePasskeys', target });
    }
    if (removesOidc && (await unlinkIdentity(db, target))) {
      await recordCommand(db, organizationId, { action: 'unlinkOidc', target });
    }
    await recordCommand(db, organizationId, { action: 'makePasswordLink', target });
    return linkOutcome(
      siteUrl(config) + path,
      `Open this link to set a new password for ${member.email}`,
    );
  });
}

async function recordCommand(
  db: Queryable,
  organizationId: string,
  { action, target = null }: { action: string; target?: string | null },
): Promise<void> {
  await addAuditEvent(db, organizationId, {
    action,
    actorType: 'command',
    actorId: null,
    actorName: null,
    projectId: null,
    environment: null,
    target,
    network: null,
    requestId: null,
  });
}

function linkOutcome(url: string, instruction: string): CommandResult {
  return { data: { sign_in_url: url }, text: `${instruction}. ${VALIDITY}\n${url}` };
}

function siteUrl(config: Config): string {
  if (config.publicUrl !== null) return config.publicUrl;
  const running = readRunning(config.dataDir);
  return (running?.kind === 'service' ? running.url : null) ?? ownUrl(config);
}
