/** `data` of an event about one recipient, as webhooks and the timeline have it. */
import { formatMailbox, type Mailbox } from '../mail/address.ts';

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

export function recipientEventData(
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
