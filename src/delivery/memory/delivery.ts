/** A delivery in the memory of a worker: one email to one recipient, claimed under the worker's lease. */
import type { MessageHead, StoredMessage } from '../message/message-store.ts';
import type { SlotUse } from './slots.ts';
import type { ClaimedRecipient } from '../queue/claim-store.ts';

export type Delivery = Pick<
  ClaimedRecipient,
  'position' | 'claim' | 'attempts' | 'destination' | 'address'
> & {
  message: MessageHead;
  /** The whole message; null for a large one, whose content is loaded for a session (content-memory.ts). */
  content: StoredMessage | null;
  /** True when the database no longer holds the content, so that delivery can only fail. */
  contentMissing?: boolean;
  contentBytes: number;
  /** The provider (delivery/route/mail-routing.ts). It changes when a look-up finds the destination's mail servers. */
  provider: string;
  /** The lease under which the recipient is claimed. An outcome under another lease is fenced. */
  leaseId: string;
  /** Monotonic time at which the delivery came into memory. */
  leasedSinceMs: number;
  expiresAtMs: number;
  /** Due time on the database's clock, by which the tenant queue is sorted. */
  dueAtMs: number;
  /** Bytes that the delivery counts in memory, without the content of a large message; a whole number. */
  weightBytes: number;
  isSuppressed: boolean;
  isDomainDeleted: boolean;
  isDomainUnverified: boolean;
  /** Set by `FairQueue` while the delivery runs: its slot, or its wait outside of the slots. */
  slot?: SlotUse;
};
