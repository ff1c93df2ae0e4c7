/** What is written when a recipient's status changes: the settlement and the `data` of its event. */
import { EVENT_OF_STATUS } from '../core/events.ts';
import type { World } from '../core/world.ts';
import { domainOf, formatMailbox, type Mailbox } from '../mail/address.ts';
import type { Settlement } from './settle.ts';

export type ToldEmail = {
  id: string;
  from: Mailbox;
  to: readonly Mailbox[];
  subject: string;
  tags: readonly { name: string; value: string }[];
  metadata: Readonly<Record<string, string>>;
  /** With its angle brackets. */
  messageId: string;
};

/** `data` of an event about one recipient, as webhooks and the timeline have it. */
function recipientEventData(
  email: ToldEmail,
  address: string,
  { status, reason, smtp }: { status: string; reason: object | null; smtp: object | null },
): object {
  return {
    email_id: email.id,
    recipient: address,
    from: formatMailbox(email.from),
    to: email.to.map(formatMailbox),
    subject: email.subject,
    tags: email.tags,
    metadata: email.metadata,
    message_id: email.messageId,
    status,
    ...(reason && { reason }),
    ...(smtp && { smtp }),
  };
}

/** What became of a recipient, by an attempt or by a report that came back later. */
type Change = Pick<Settlement, 'status' | 'smtp' | 'reason'> & {
  suppress: { reason: 'hard_bounce' | 'complaint'; days: number | null } | null;
};

type SettledRecipient = Pick<Settlement, 'projectId' | 'environment' | 'position'> & {
  address: string;
  email: ToldEmail;
};

/** The change as the store settles it. */
export function newSettlement(
  { projectId, environment, position, address, email }: SettledRecipient,
  { status, smtp, reason, suppress }: Change,
  world: Pick<World, 'newId'>,
  claimed: Pick<Settlement, 'claim' | 'attempt' | 'retryMs' | 'provider' | 'late'>,
): Settlement {
  return {
    projectId,
    environment,
    emailId: email.id,
    senderDomain: domainOf(email.from.address),
    position,
    status,
    eventId: world.newId(),
    eventType: EVENT_OF_STATUS[status],
    data: recipientEventData(email, address, { status, reason, smtp }),
    smtp,
    reason,
    suppress: suppress && { address, ...suppress, eventId: world.newId() },
    ...claimed,
  };
}
