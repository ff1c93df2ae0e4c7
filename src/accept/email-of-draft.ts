/**
 * Makes the two forms of an email from its draft: the email to store (store/new-email.ts), and the message that
 * delivery sends without loading it. A dry run makes both and stores neither.
 */
import { MAIL_LIFETIME_S } from '../core/retry.ts';
import type { Caller } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import { addressKey, domainOf } from '../mail/address.ts';
import type { StoredMessage } from '../delivery/message/message-store.ts';
import type { EmailHandOver } from '../delivery/hand-over.ts';
import { emailEventData } from '../events/event-store.ts';
import type { EmailDraft } from './draft.ts';
import type { EmailResult, NewEmail, NewRecipient } from './store/new-email.ts';

export type NewEmailOptions = {
  world: Pick<World, 'newId'>;
  handOver: Pick<EmailHandOver, 'hasSpaceFor' | 'providerOf'>;
};

export function newEmail(
  caller: Caller,
  draft: EmailDraft,
  context: {
    idempotency: NewEmail['idempotency'];
    options: NewEmailOptions;
    /** Recipients of earlier emails of the same request. */
    recipientsAhead?: number;
  },
): NewEmail {
  const { handOver, world } = context.options;
  const { email, bcc, scheduledAt, sizeBytes } = draft;
  const id = draft.emailId ?? world.newId();
  const recipients = uniqueRecipients(caller, draft, context.options);
  const lifetimeS = draft.expiresInS ?? MAIL_LIFETIME_S;
  return {
    ...email,
    bcc,
    projectId: caller.projectId,
    environment: caller.environment,
    keyId: caller.keyId,
    allowLists: caller,
    clientAddress: caller.clientAddress,
    id,
    eventId: world.newId(),
    scheduledAt,
    lifetimeS,
    recipients,
    eventData: emailEventData(email.from, { status: 'queued' }),
    response: JSON.stringify({ object: 'email', id, status: '@status', created_at: '@created_at' }),
    mayHandOver:
      scheduledAt === null &&
      handOver.hasSpaceFor({
        projectId: caller.projectId,
        providers: recipients.map((recipient) => recipient.provider),
        recipientsAhead: context.recipientsAhead ?? 0,
        lifetimeMs: lifetimeS * 1000,
      }),
    idempotency: context.idempotency,
    sizeBytes,
    acceptsSuppressed: draft.acceptsSuppressed ?? false,
  };
}

/** Keeps one recipient per address, in the first role in which it occurs: an address gets one copy. */
function uniqueRecipients(
  { environment }: Caller,
  draft: EmailDraft,
  { world, handOver }: NewEmailOptions,
): NewRecipient[] {
  const recipients = new Map<string, NewRecipient>();
  for (const { kind, address } of draft.recipients) {
    if (recipients.has(address)) continue;
    const destination = domainOf(address);
    recipients.set(address, {
      position: recipients.size,
      address,
      addressKey: addressKey(address),
      kind,
      destination,
      provider: handOver.providerOf(environment, destination),
      eventId: world.newId(),
    });
  }
  return [...recipients.values()];
}

/**
 * Returns the email in the form that delivery loads.
 * @param decided.startsAt the later of now and the scheduled time
 */
export function toStoredMessage(
  email: NewEmail,
  draft: EmailDraft,
  decided: Pick<EmailResult, 'createdAt' | 'dualSigned' | 'tls' | 'tracking'> & {
    domainId: string;
    startsAt: Date;
  },
): StoredMessage {
  const { createdAt, startsAt, domainId, dualSigned, tls, tracking } = decided;
  return {
    ...draft.email,
    projectId: email.projectId,
    environment: email.environment,
    id: email.id,
    createdAt,
    scheduledAt: startsAt > createdAt ? startsAt : null,
    expiresAt: new Date(startsAt.getTime() + email.lifetimeS * 1000),
    domainId,
    dualSigned,
    tls,
    tracking,
  };
}
