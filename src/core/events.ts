/**
 * The event types, and the status change that causes each. An event is stored in the transaction of its change. Most
 * rooms that change an email insert its event in their own statement. `recordEvent` (events/event-store.ts) is for
 * single changes of domains, suppressions, webhooks and alerts.
 */
import { OPERATOR_EVENT_TYPES, type OperatorEventType } from './operator-events.ts';
import type { StoredStatus } from './statuses.ts';

export const PROJECT_EVENT_TYPES = [
  'email.queued',
  'email.scheduled',
  'email.sent',
  'email.delivered',
  'email.delivery_delayed',
  'email.bounced',
  'email.complained',
  'email.suppressed',
  'email.failed',
  'email.canceled',
  'email.opened',
  'email.clicked',
  'domain.created',
  'domain.verified',
  'domain.degraded',
  'domain.recovered',
  'domain.failed',
  'domain.deleted',
  'suppression.added',
  'suppression.removed',
  'project.reputation_alert',
  'webhook.disabled',
] as const;

export type ProjectEventType = (typeof PROJECT_EVENT_TYPES)[number];
export type EventType = ProjectEventType | OperatorEventType;

/** All types, including those that only operators receive (operator-events.ts). */
export const EVENT_TYPES: readonly EventType[] = [
  ...new Set<EventType>([...PROJECT_EVENT_TYPES, ...OPERATOR_EVENT_TYPES]),
];

export const EVENT_OF_STATUS: Readonly<Record<StoredStatus, EventType>> = {
  scheduled: 'email.scheduled',
  queued: 'email.queued',
  deferred: 'email.delivery_delayed',
  sent: 'email.sent',
  delivered: 'email.delivered',
  bounced: 'email.bounced',
  complained: 'email.complained',
  suppressed: 'email.suppressed',
  failed: 'email.failed',
  canceled: 'email.canceled',
};
