/**
 * Stores events. Every statement that changes a status inserts its event and the webhook deliveries (`fanOut`), so
 * that they commit together. Most rooms that change an email insert its event in their own statement. `recordEvent` is
 * for single changes of domains, suppressions, webhooks and alerts.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { formatMailbox, type Mailbox } from '../mail/address.ts';
import type { Queryable } from '../database/database.ts';
import { newId } from '../database/ids.ts';

/** A change of an email. Without `recipient` it concerns the whole email. */
type EmailChange = {
  recipient?: string;
  status: StoredStatus;
  reason?: object | null;
  smtp?: object | null;
};

/**
 * Returns the stored `data` of an event about an email. EVENT_DATA adds fields of the email's own row when the event
 * is read.
 */
export function emailEventData(
  from: Mailbox,
  { recipient, status, reason, smtp }: EmailChange,
): object {
  return {
    ...(recipient !== undefined && { recipient }),
    from: formatMailbox(from),
    status,
    ...(reason && { reason }),
    ...(smtp && { smtp }),
  };
}

/** The events of a fan-out. All are SQL. `row` names a row with the project and environment of an event. */
type FanOutEvents = {
  from: string;
  row: string;
  id: string;
  subjectId: string;
  seq: string;
  type: string;
  now: string;
  /** Looks up endpoints once for each row `row` of `from`, then joins the events of this row. */
  perGroup?: { row: string; join: string };
};

/**
 * SQL of the fan-out to webhooks: a delivery and a queue row for every enabled endpoint that subscribes to the event.
 * Part of the statements that change a status, so that change, event and deliveries commit together. `offset 0` in
 * the lateral look-up forces one index probe per event.
 */
export function fanOut(events: FanOutEvents): string {
  const { from, row, id, subjectId, seq, type, now, perGroup = { row, join: '' } } = events;
  return `
new_webhook_deliveries as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select ${row}.project_id, ${row}.environment, endpoint.id, ${id}, ${subjectId}, ${seq}, ${type}, ${now}
    from ${from}
   cross join lateral (
      select endpoint.id from webhook_endpoints endpoint
       where endpoint.project_id = ${perGroup.row}.project_id
         and endpoint.environment = ${perGroup.row}.environment
         and endpoint.status = 'enabled'
         and (endpoint.events is null or ${type} = any(endpoint.events)) offset 0) endpoint
   ${perGroup.join}
  returning project_id, endpoint_id, event_id, created_at
),
queued_webhooks as (
  insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, created_at from new_webhook_deliveries
  returning 1
)`;
}

/** For statements with a step `clock` that has the time, and a step `new_events` that returns the columns of events. */
export const FAN_OUT_OF_NEW_EVENTS = fanOut({
  from: 'clock, new_events',
  row: 'new_events',
  id: 'new_events.id',
  subjectId: 'new_events.subject_id',
  seq: 'new_events.seq',
  type: 'new_events.type',
  now: 'clock.now',
});

/**
 * Fields of an event that come from the row `email`, as JSON without the last brace. These columns never change,
 * so an event is always read with the same bytes.
 */
const COMMON_DATA = `
      select '{"email_id":"' || email.id || '","to":' || to_json(email.to_list)
             || ',"subject":' || to_json(email.subject) || ',"tags":' || email.tags
             || ',"metadata":' || email.metadata || ',"message_id":'
             || to_json(coalesce(email.message_id,
                                 '<' || email.id || '@' || substring(email.from_address from '[^@]*$') || '>'))
             || ',' as data
        from emails email`;

/** Joins the email of event `e` with one index probe. */
export const EVENT_EMAIL = (e: string): string => `
  left join lateral (${COMMON_DATA}
       where email.project_id = ${e}.project_id and email.environment = ${e}.environment
         and email.id = ${e}.subject_id limit 1) common on ${e}.type like 'email.%'`;

/**
 * `data` of event `e` for webhooks and the timeline. Older events were stored whole and stay unchanged. While
 * retention removes an old week, its events lack these fields.
 */
export const EVENT_DATA = (e: string): string => `
       case when common.data is null or ${e}.data ->> 'email_id' is not null then ${e}.data
            else (common.data || substr(${e}.data::text, 2))::json end`;

// The event is its own subject, so it is in the partition of its own week.
const RECORD = `
with clock as materialized (select app_now() as now),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, 1, $3, $4, clock.now, $5::json from clock
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS}
select count(*)::int as "queuedWebhooks" from queued_webhooks`;

/**
 * Records an event and queues it for every subscribed endpoint.
 * @param options.data the `data` of the webhook; serialized once and never changed
 */
export async function recordEvent(
  db: Queryable,
  { scope, type, data }: { scope: Scope; type: EventType; data: object },
): Promise<void> {
  await db.query(RECORD, [scope.projectId, scope.environment, newId(), type, JSON.stringify(data)]);
}
