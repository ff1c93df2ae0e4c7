/**
 * Makes deliveries of recipients that this worker has claimed: recipients that the accept path hands over, and those
 * claimed from the table. The dispatcher adds their provider.
 */
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { isLarge, sizeOf } from '../memory/content-memory.ts';
import { headOf, loadHeads, loadMessages } from '../message/message-store.ts';
import type { Delivery } from '../memory/delivery.ts';
import type { HandedOverEmail } from '../hand-over.ts';
import type { ClaimedRecipient } from './claim-store.ts';

export type UnroutedDelivery = Omit<Delivery, 'provider' | 'weightBytes'>;

/** Returns the deliveries of an accepted email. For a large message they contain only its head. */
export function deliveriesOfEmail(
  { message, recipients, leaseId, lifetimeMs }: HandedOverEmail,
  leasedSinceMs: number,
): UnroutedDelivery[] {
  const contentBytes = sizeOf(message);
  const common = {
    message: isLarge(contentBytes) ? headOf(message) : message,
    content: isLarge(contentBytes) ? null : message,
    contentBytes,
    leaseId,
    claim: 1,
    attempts: 0,
    leasedSinceMs,
    dueAtMs: message.createdAt.getTime(),
    expiresAtMs: leasedSinceMs + lifetimeMs,
    isSuppressed: false,
    isDomainDeleted: false,
    isDomainUnverified: false,
  };
  return recipients.map((recipient) => ({ ...recipient, ...common }));
}

/** Returns the deliveries of claimed recipients. Loads whole messages, but only the heads of large ones. */
export async function deliveriesOfClaims(
  claimed: readonly ClaimedRecipient[],
  { db, world, leaseId }: { db: Queryable; world: Pick<World, 'monotonicMs'>; leaseId: string },
): Promise<UnroutedDelivery[]> {
  const keys = claimed.map((recipient) => ({ ...recipient, id: recipient.emailId }));
  const small = keys.filter(({ sizeBytes }) => !isLarge(sizeBytes));
  const messages = small.length === 0 ? null : await loadMessages(db, small);
  const withoutContent = keys.filter(({ id }) => messages?.has(id) !== true);
  const heads = withoutContent.length === 0 ? null : await loadHeads(db, withoutContent);
  const leasedSinceMs = world.monotonicMs();
  return claimed.map((recipient) => {
    const content = messages?.get(recipient.emailId) ?? null;
    const message = content ?? heads?.get(recipient.emailId);
    if (!message) throw new Error(`queued email ${recipient.emailId} is not stored`);
    return {
      ...recipient,
      message,
      content,
      contentMissing: content === null && !isLarge(recipient.sizeBytes),
      contentBytes: recipient.sizeBytes,
      leaseId,
      leasedSinceMs,
      dueAtMs: recipient.dueAt.getTime(),
      expiresAtMs: leasedSinceMs + recipient.remainingMs,
    };
  });
}
