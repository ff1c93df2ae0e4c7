/** A settlement: the stored change that an outcome causes (settle-store.ts). */
import { EVENT_OF_STATUS, type EventType } from '../core/events.ts';
import type { Environment } from '../core/scope.ts';
import type { StoredStatus } from '../core/statuses.ts';
import type { World } from '../lib/world.ts';
import { type Address, domainOf, type Mailbox } from '../mail/address.ts';
import type { Dsn } from '../mail/dsn-parameters.ts';
import { type NextServer, type Notice, noticeFor } from '../mail/notice.ts';
import { emailEventData } from '../events/event-store.ts';

/** Puts an address on the suppression list. `days` null: without expiry. */
export type NewSuppression = { reason: 'hard_bounce' | 'complaint'; days: number | null };

export type Settlement = {
  projectId: string;
  environment: Environment;
  emailId: string;
  senderDomain: string;
  position: number;
  claim: number;
  status: StoredStatus;
  eventId: string;
  eventType: EventType;
  /** `data` of the event, as webhooks receive it. */
  data: object;
  /** The attempt in the timeline; null when nothing was attempted. */
  attempt: object | null;
  smtp: object | null;
  reason: object | null;
  retryMs: number | null;
  provider: string;
  suppress: (NewSuppression & { address: string; eventId: string }) | null;
  /** A report that arrived after the recipient had ended. */
  late: boolean;
  /** Notice to the envelope sender, who requested it. */
  notice?: Notice;
};

/** The outcome of an attempt, or of a report that arrived later. */
type OutcomeChange = Pick<Settlement, 'status' | 'smtp' | 'reason'> & {
  suppress: NewSuppression | null;
  /** How the next server handles requested notices. */
  nextServer?: NextServer;
};

type SettledRecipient = Pick<Settlement, 'projectId' | 'environment' | 'position'> & {
  address: Address;
  email: { id: string; from: Mailbox; dsn?: Dsn };
};

export function newSettlement(
  { projectId, environment, position, address, email }: SettledRecipient,
  change: OutcomeChange,
  world: Pick<World, 'newId'>,
  claimed: Pick<Settlement, 'claim' | 'attempt' | 'retryMs' | 'provider' | 'late'>,
): Settlement {
  const { status, smtp, reason, suppress } = change;
  const notice = email.dsn && noticeFor(email.dsn, address, change);
  return {
    projectId,
    environment,
    emailId: email.id,
    senderDomain: domainOf(email.from.address),
    position,
    status,
    eventId: world.newId(),
    eventType: EVENT_OF_STATUS[status],
    data: emailEventData(email.from, { recipient: address, status, reason, smtp }),
    smtp,
    reason,
    suppress: suppress && { address, ...suppress, eventId: world.newId() },
    ...claimed,
    ...(notice && { notice }),
  };
}
