/**
 * The log of webhook deliveries: one per event and endpoint, with its attempts. A delivery is stored with its event
 * (events/event-store.ts) and updated with each outcome (sending/webhook-queue-store.ts). replay-store.ts queues it
 * again; retention/retention-store.ts deletes it.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { EVENT_DATA, EVENT_EMAIL } from '../events/event-store.ts';
import { firstUuidAt } from '../database/ids.ts';

export type DeliveryStatus = 'pending' | 'delivered' | 'failed';

export type WebhookDelivery = {
  id: string;
  type: string;
  /** Null for an event that concerns no email. */
  emailId: string | null;
  /** Recipient of the event, or the only one of its email. */
  recipient: string | null;
  status: DeliveryStatus;
  attempts: number;
  createdAt: Date;
  completedAt: Date | null;
  nextAttemptAt: Date | null;
  /** null before the first attempt. */
  lastAttempt: LoggedAttempt | null;
};

/** One attempt as stored and shown. A delivery keeps its newest 20. */
export type LoggedAttempt = {
  at: string;
  status: number | null;
  latency_ms: number;
  /** The first 4 KB of the response body. */
  answer: string | null;
  error: string | null;
};

export type StoredEvent = {
  type: string;
  createdAt: string;
  /** JSON text with the same bytes for each attempt. */
  data: string;
};

export type WebhookDeliveryDetail = WebhookDelivery & {
  log: LoggedAttempt[];
  /** Null when the event is past its retention. */
  event: StoredEvent | null;
};

/** An event that concerns no email is its own subject. */
export const DELIVERY_COLUMNS = `delivery.event_id as id, delivery.type, delivery.status, delivery.attempts,
       case when delivery.subject_id <> delivery.event_id then delivery.subject_id end as "emailId",
       case when delivery.subject_id <> delivery.event_id then coalesce(
         (select events.data ->> 'recipient' from events
           where events.project_id = delivery.project_id and events.subject_id = delivery.subject_id
             and events.seq = delivery.seq limit 1),
         (select min(recipients.address) from recipients
           where recipients.project_id = delivery.project_id and recipients.email_id = delivery.subject_id
          having count(*) = 1)) end as recipient,
       delivery.created_at as "createdAt", delivery.completed_at as "completedAt",
       webhook_queue.due_at as "nextAttemptAt",
       delivery.log -> -1 as "lastAttempt"`;

export const QUEUE_JOIN = `
  left join lateral (select webhook_queue.due_at from webhook_queue
                      where webhook_queue.project_id = delivery.project_id
                        and webhook_queue.event_id = delivery.event_id
                        and webhook_queue.endpoint_id = delivery.endpoint_id limit 1) webhook_queue on true`;

const EVENTS_MAX = 200;

/** One index probe for each event and endpoint. A project has few endpoints (ENDPOINTS_MAX). */
const LIST_OF_EMAIL = `
select ${DELIVERY_COLUMNS}, endpoint.id as "endpointId", endpoint.url
  from (select id from events
         where project_id = $1 and environment = $2 and subject_id = $3
         order by seq desc limit ${EVENTS_MAX}) event
 cross join (select id, url from webhook_endpoints
              where project_id = $1 and environment = $2) endpoint
 cross join lateral (
    select * from webhook_deliveries delivery
     where delivery.project_id = $1 and delivery.endpoint_id = endpoint.id
       and delivery.event_id = event.id offset 0) delivery${QUEUE_JOIN}
 order by delivery.event_id desc, endpoint.id
 limit $4`;

export type EmailDelivery = WebhookDelivery & { endpointId: string; url: string };

/** Returns the deliveries of an email's newest events, newest first. Deleted endpoints have none. */
export async function listDeliveriesOfEmail(
  db: Queryable,
  { projectId, environment, id }: Scope & { id: string },
  limit: number,
): Promise<EmailDelivery[]> {
  return db.query<EmailDelivery>(LIST_OF_EMAIL, [projectId, environment, id, limit]);
}

const FIND_DELIVERY = `
select ${DELIVERY_COLUMNS}, delivery.log, event.event
  from webhook_deliveries delivery${QUEUE_JOIN}
  left join lateral (
    select json_build_object('type', delivery.type, 'createdAt', wire_time(event.created_at),
                             'data', (${EVENT_DATA('event')})::text) as event
      from events event${EVENT_EMAIL('event')}
     where event.project_id = delivery.project_id and event.subject_id = delivery.subject_id
       and event.seq = delivery.seq
     limit 1) event on true
 where delivery.project_id = $1 and delivery.environment = $2 and delivery.endpoint_id = $3
   and delivery.event_id = $4`;

export async function findDelivery(
  db: Queryable,
  scope: Scope,
  { endpointId, id }: { endpointId: string; id: string },
): Promise<WebhookDeliveryDetail | null> {
  const values = [scope.projectId, scope.environment, endpointId, id];
  const [row] = await db.query<WebhookDeliveryDetail>(FIND_DELIVERY, values);
  return row ?? null;
}

// Ids use the clock of the process, created_at uses the clock of the database. The margin covers the difference.
export const ID_MARGIN_MS = 5 * 60_000;

/** Literals, so that the planner uses the index of failed deliveries. */
const failedSql = (failed: boolean): string => (failed ? "status = 'failed'" : 'true');

const rangeSql = (failed: boolean) => `
  from webhook_deliveries delivery
 where delivery.project_id = $1 and delivery.environment = $2 and delivery.endpoint_id = $3
   and delivery.event_id > $4 and delivery.event_id < $5 and delivery.created_at >= $6
   and delivery.created_at < $7
   and ($8::text is null or delivery.status = $8) and ${failedSql(failed)}`;

type MatchParameters = { type: string; codeLike: string; isUnanswered: string };

/** Conditions on the type of the event and the last response. */
export const matchesSql = (P: MatchParameters): string => `
       (${P.type}::text is null or delivery.type = ${P.type})
   and (${P.codeLike}::text is null or delivery.log -> -1 ->> 'status' like ${P.codeLike})
   and (not ${P.isUnanswered}::boolean
        or (delivery.log <> '[]' and delivery.log -> -1 ->> 'status' is null))`;

const MATCHES = matchesSql({ type: '$10', codeLike: '$11', isUnanswered: '$12' });

const findRangeSql = (failed: boolean) => `
select delivery.event_id as id ${rangeSql(failed)} and ${MATCHES}
 order by delivery.event_id
 limit $9`;

const countRangeSql = (failed: boolean) => `
select count(*)::int as covered, count(*) filter (where ${MATCHES})::int as matching
  from (select delivery.type, delivery.log ${rangeSql(failed)} limit $9) delivery`;

/** The type of the event that is delivered. */
export type DeliveredType = EventType | 'webhook.test';

/** The last response: an HTTP status, a class of them, or no response. */
export type ResponseCode = { like: string } | 'none';

/** Parses `500`, `5xx` or `none`. */
export function parseResponseCode(text: string): ResponseCode | null {
  if (text === 'none') return 'none';
  return /^[1-5](?:\d\d|xx)$/.test(text) ? { like: text.replace('xx', '__') } : null;
}

export type DeliveryRange = {
  endpointId: string;
  since: Date;
  until: Date;
  status: DeliveryStatus | null;
  type: DeliveredType | null;
  code: ResponseCode | null;
};

/** Sorts by id, which is chronological except for differences between clocks. */
export async function findDeliveryIds(
  db: Queryable,
  scope: Scope,
  { after, limit, ...range }: DeliveryRange & { after: string | null; limit: number },
): Promise<string[]> {
  const values = rangeValues(scope, range, after);
  const failed = range.status === 'failed';
  const rows = await db.query<{ id: string }>(findRangeSql(failed), [
    ...values,
    limit,
    ...matchValues(range),
  ]);
  return rows.map((row) => row.id);
}

export type DeliveryCounts = {
  /** Deliveries of the period and status, whatever their type and response. */
  covered: number;
  matching: number;
};

/** @param range.limit on the deliveries that are read */
export async function countDeliveries(
  db: Queryable,
  scope: Scope,
  { limit, ...range }: DeliveryRange & { limit: number },
): Promise<DeliveryCounts> {
  const values = [...rangeValues(scope, range, null), limit, ...matchValues(range)];
  const [row] = await db.query<DeliveryCounts>(countRangeSql(range.status === 'failed'), values);
  return row ?? { covered: 0, matching: 0 };
}

function matchValues({ type, code }: DeliveryRange): unknown[] {
  const { codeLike, isUnanswered } = codeValues(code);
  return [type, codeLike, isUnanswered];
}

export function codeValues(code: ResponseCode | null) {
  const codeLike = code === null || code === 'none' ? null : code.like;
  return { codeLike, isUnanswered: code === 'none' };
}

function rangeValues(scope: Scope, range: DeliveryRange, after: string | null): unknown[] {
  const { endpointId, since, until, status } = range;
  const first = firstUuidAt(since.getTime() - ID_MARGIN_MS);
  const last = firstUuidAt(until.getTime() + ID_MARGIN_MS);
  const ids = [after !== null && after > first ? after : first, last];
  return [scope.projectId, scope.environment, endpointId, ...ids, since, until, status];
}

const RECORD_TEST = `
with new_event as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  values ($1, $2, $4, 1, $4, 'webhook.test', $6, $7::json)
)
insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                type, status, attempts, created_at, completed_at, log)
values ($1, $2, $3, $4, $4, 1, $5, $8, 1, $6, app_now(), jsonb_build_array($9::jsonb))`;

/** The event has the type `webhook.test`, which keeps examples of other types out of the event stream. */
export async function recordTestDelivery(
  db: Queryable,
  scope: Scope,
  test: {
    endpointId: string;
    id: string;
    event: StoredEvent;
    status: DeliveryStatus;
    attempt: LoggedAttempt;
  },
): Promise<void> {
  await db.query(RECORD_TEST, [
    scope.projectId,
    scope.environment,
    test.endpointId,
    test.id,
    test.event.type,
    test.event.createdAt,
    test.event.data,
    test.status,
    JSON.stringify(test.attempt),
  ]);
}
