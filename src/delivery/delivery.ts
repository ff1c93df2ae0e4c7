/**
 * One recipient that this worker holds, on its way through delivery/.
 */
import type { ClaimedRecipient } from '../store/queue-claims.ts';
import type { StoredMessage } from '../store/emails.ts';

export type Delivery = Pick<
  ClaimedRecipient,
  'position' | 'claim' | 'attempts' | 'destination' | 'address'
> & {
  message: StoredMessage;
  /** Whose turn and trouble it shares; changes when the destination's provider becomes known. */
  provider: string;
  /** The lease under which it is held; another one's outcome would be fenced off. */
  holder: string;
  /** On the monotonic clock: when it came into memory, and when it must have been delivered. */
  heldSinceMs: number;
  expiresAtMs: number;
  /** Its age in its provider, on the database's clock. */
  dueAtMs: number;
  /** Its part of the memory that its message takes. */
  weightBytes: number;
  suppressed: boolean;
  domainDeleted: boolean;
  domainUnverified: boolean;
};

/** Memory that a message takes while it is here, roughly. */
export function sizeOf(message: StoredMessage): number {
  const attachments = message.attachments.reduce((sum, one) => sum + one.content.length, 0);
  const raw = message.written?.raw.length ?? 0;
  return 1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachments + raw;
}
