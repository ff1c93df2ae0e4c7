/**
 * Events, as webhooks get them. Every statement that changes something inserts its event and the
 * webhook deliveries of it (`FAN_OUT`), so that they commit together. Events of emails are written by
 * accept-statement.ts and settle.ts; those about a domain or a suppression here, in the transaction
 * that the caller passes.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { formatMailbox, type Mailbox } from '../mail/address.ts';
import type { Queryable } from './postgres/database.ts';
import { newId } from './ids.ts';

export type EventEmail = {
  id: string;
  from: Mailbox;
  to: readonly Mailbox[];
  subject: string;
  tags: readonly { name: string; value: string }[];
  metadata: Readonly<Record<string, string>>;
  /** With its angle brackets. */
  messageId: string;
};

/** What happened, and to whom: without `recipient` it is about the whole email. */
type EmailChange = {
  recipient?: string;
  status: StoredStatus;
  reason?: object | null;
  smtp?: object | null;
};

/** `data` of an event about an email, as webhooks and the timeline have it. */
export function emailEventData(
  email: EventEmail,
  { recipient, status, reason, smtp }: EmailChange,
): object {
  return {
    email_id: email.id,
    ...(recipient !== undefined && { recipient }),
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

/**
 * The fan-out to webhooks, as part of the statements that change something (accept-statement.ts,
 * settle.ts): a delivery and a queue row for every enabled endpoint that wants the event.
 * One change, one event, one set of deliveries: they commit together or not at all.
 *
 * Needs a step `t` with the time and a step `new_events` that returns the events' columns. The
 * look-up is lateral with `offset 0`: one probe per event, whatever the planner believes.
 */
export const FAN_OUT = `
notification as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select e.project_id, e.environment, w.id, e.id, e.subject_id, e.seq, e.type, t.now
    from t, new_events e
   cross join lateral (
      select w.id from webhook_endpoints w
       where w.project_id = e.project_id and w.environment = e.environment
         and w.status = 'enabled' and (w.events is null or e.type = any(w.events)) offset 0) w
  returning project_id, endpoint_id, event_id
),
notification_queue as (
  insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, t.now from notification, t
  returning 1
)`;

// The event is its own subject: that puts it into the partition of its own week.
const RECORD = `
with t as materialized (select app_now() as now),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, 1, $3, $4, t.now, $5::json from t
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT}
select count(*)::int as notified from notification_queue`;

/**
 * Records that something happened, and queues it for every endpoint that wants to know.
 * @param event.data the `data` of the webhook; becomes JSON text once and is never changed
 */
export async function recordEvent(
  db: Queryable,
  { scope, type, data }: { scope: Scope; type: EventType; data: object },
): Promise<void> {
  await db.query(RECORD, [scope.projectId, scope.environment, newId(), type, JSON.stringify(data)]);
}
