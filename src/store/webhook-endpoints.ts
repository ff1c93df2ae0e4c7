/**
 * Webhook endpoints (registered, changed, deleted, secrets rotated) and their deliveries: one per event
 * and endpoint, with every attempt, sent again on request. The event's id is the delivery's id. Secrets
 * are sealed (secrets.ts); only webhooks/ opens them.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import { type Page, type PageOf, pageOf } from './page.ts';
import { firstUuidOf } from './partitions.ts';

export type EndpointStatus = 'enabled' | 'disabled';

export type WebhookEndpoint = {
  id: string;
  url: string;
  /** null: every event, also of kinds that come later. */
  events: readonly EventType[] | null;
  status: EndpointStatus;
  /** Why the service itself disabled it, as a sentence; null when a request asked for it. */
  disabledReason: string | null;
  /** Since when every attempt has failed; null while it works. */
  failingSince: Date | null;
  createdAt: Date;
};

/** Sealed with the endpoint's id. `previousSecret` only while it is still valid. */
export type SealedSecrets = { secret: Buffer; previousSecret: Buffer | null };

/** Every endpoint is notified of each event: bounds the fan-out of one accept. */
export const ENDPOINTS_MAX = 50;

const COLUMNS = `id, url, events, status, disabled_reason as "disabledReason",
       failing_since as "failingSince", created_at as "createdAt"`;

const CREATE = `
insert into webhook_endpoints (project_id, environment, id, url, events, status, secret, created_at)
select $1, $2, $3, $4, $5, 'enabled', $6, app_now()
 where (select count(*) from webhook_endpoints where project_id = $1 and environment = $2)
       < ${ENDPOINTS_MAX}
returning ${COLUMNS}`;

/** Null when the project has as many endpoints in this environment as it may. */
export async function createEndpoint(
  db: Queryable,
  scope: Scope,
  endpoint: { id: string; url: string; events: readonly EventType[] | null; secret: Buffer },
): Promise<WebhookEndpoint | null> {
  const { id, url, events, secret } = endpoint;
  const values = [scope.projectId, scope.environment, id, url, events, secret];
  const [row] = await db.query<WebhookEndpoint>(CREATE, values);
  return row ?? null;
}

const LIST = `
select ${COLUMNS} from webhook_endpoints
 where project_id = $1 and environment = $2
   and ($4::uuid is null or id < $4) and ($5::uuid is null or id > $5)
 order by case when $5::uuid is null then id end desc, id
 limit $3`;

/** Newest first. */
export async function listEndpoints(
  db: Queryable,
  scope: Scope,
  page: Page,
): Promise<PageOf<WebhookEndpoint>> {
  const values = [scope.projectId, scope.environment, page.limit + 1, page.after, page.before];
  return pageOf(await db.query<WebhookEndpoint>(LIST, values), page);
}

const FIND = `
select ${COLUMNS} from webhook_endpoints
 where project_id = $1 and environment = $2 and id = $3`;

export async function findEndpoint(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<WebhookEndpoint | null> {
  const [row] = await db.query<WebhookEndpoint>(FIND, [scope.projectId, scope.environment, id]);
  return row ?? null;
}

const FIND_SECRETS = `
select secret, case when previous_secret_expires_at > app_now() then previous_secret end
       as "previousSecret"
  from webhook_endpoints
 where project_id = $1 and environment = $2 and id = $3`;

export async function findSecrets(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<SealedSecrets | null> {
  const values = [scope.projectId, scope.environment, id];
  const [row] = await db.query<SealedSecrets>(FIND_SECRETS, values);
  return row ?? null;
}

// Another address, or switched on again: what failed before says nothing any more.
const UPDATE = `
update webhook_endpoints e
   set url = $4, events = $5, status = $6,
       failures        = case when c.anew then 0 else e.failures end,
       failing_since   = case when not c.anew then e.failing_since end,
       disabled_reason = case when not c.anew then e.disabled_reason end,
       blocked_until   = case when c.anew then app_now() else e.blocked_until end
  from (select id, url <> $4 or status <> $6 as anew from webhook_endpoints
         where project_id = $1 and environment = $2 and id = $3 for update) c
 where e.project_id = $1 and e.environment = $2 and e.id = $3
returning e.id, e.url, e.events, e.status, e.disabled_reason as "disabledReason",
          e.failing_since as "failingSince", e.created_at as "createdAt"`;

/** Changes an endpoint; null when there is none with this id. */
export async function updateEndpoint(
  db: Queryable,
  scope: Scope,
  { id, url, events, status }: Pick<WebhookEndpoint, 'id' | 'url' | 'events' | 'status'>,
): Promise<WebhookEndpoint | null> {
  const values = [scope.projectId, scope.environment, id, url, events, status];
  const [row] = await db.query<WebhookEndpoint>(UPDATE, values);
  return row ?? null;
}

const ROTATE = `
update webhook_endpoints
   set previous_secret = secret, previous_secret_expires_at = app_now() + interval '24 hours',
       secret = $4
 where project_id = $1 and environment = $2 and id = $3
returning ${COLUMNS}`;

/** The secret until now stays valid for 24 hours beside the new one. */
export async function rotateSecret(
  db: Queryable,
  scope: Scope,
  { id, secret }: { id: string; secret: Buffer },
): Promise<WebhookEndpoint | null> {
  const values = [scope.projectId, scope.environment, id, secret];
  const [row] = await db.query<WebhookEndpoint>(ROTATE, values);
  return row ?? null;
}

// One waiting row becomes due: through it the loop finds the rest, and ends them all as failed.
const DELETE = `
with gone as (
  delete from webhook_endpoints where project_id = $1 and environment = $2 and id = $3 returning id
), one as (
  select q.endpoint_id, q.event_id from webhook_queue q
   where q.endpoint_id = $3 and q.holder is null and exists (select from gone)
   order by q.due_at limit 1 for update skip locked
), found as (
  update webhook_queue q set due_at = app_now() from one
   where q.endpoint_id = one.endpoint_id and q.event_id = one.event_id
)
select id from gone`;

/** False when there was none with this id. */
export async function deleteEndpoint(db: Queryable, scope: Scope, id: string): Promise<boolean> {
  const rows = await db.query(DELETE, [scope.projectId, scope.environment, id]);
  return rows.length > 0;
}

export type DeliveryStatus = 'pending' | 'delivered' | 'failed';

export type WebhookDelivery = {
  id: string;
  type: string;
  status: DeliveryStatus;
  /** Attempts made, replays included. */
  attempts: number;
  createdAt: Date;
  completedAt: Date | null;
  /** Null once it has ended. */
  nextAttemptAt: Date | null;
};

/** One attempt, as stored and as shown: the newest 20 of a delivery are kept. */
export type LoggedAttempt = {
  /** ISO 8601, when it began. */
  at: string;
  /** The HTTP status of the answer; null when there was none. */
  status: number | null;
  latency_ms: number;
  /** First 4 KB of the answer's body. */
  answer: string | null;
  /** Why there was no answer, as a sentence. */
  error: string | null;
};

/** What goes over the wire, in the pieces that the database has. */
export type StoredEvent = {
  type: string;
  /** ISO 8601. */
  createdAt: string;
  /** JSON text, byte for byte as recorded. */
  data: string;
};

export type WebhookDeliveryDetail = WebhookDelivery & {
  log: LoggedAttempt[];
  /** Null when the event is older than what is kept. */
  event: StoredEvent | null;
};

const DELIVERY_COLUMNS = `d.event_id as id, d.type, d.status, d.attempts, d.created_at as "createdAt",
       d.completed_at as "completedAt", q.due_at as "nextAttemptAt"`;

const WAITING = `
  left join lateral (select q.due_at from webhook_queue q
                      where q.endpoint_id = d.endpoint_id and q.event_id = d.event_id
                      limit 1) q on true`;

/** As many are looked through by a status that has no index. */
const SCAN_MAX = 50_000;

/** Written out, so that the index of failed ones is found. */
const onlyFailed = (failed: boolean): string => (failed ? "status = 'failed'" : 'true');

type Look = { order: 'desc' | 'asc'; failed: boolean };

/** What is looked at: failed ones have an index of their own. */
const scan = ({ order, failed }: Look) => `
  select * from webhook_deliveries
   where project_id = $1 and environment = $2 and endpoint_id = $3
     and ($4::uuid is null or event_id ${order === 'desc' ? '<' : '>'} $4)
     and ${onlyFailed(failed)}
   order by event_id ${order} limit ${SCAN_MAX}`;

const list = (look: Look) => `
select ${DELIVERY_COLUMNS} from (${scan(look)}) d${WAITING}
 where ($5::text is null or d.status = $5)
 order by d.event_id ${look.order}
 limit $6`;

const lastScanned = (look: Look) => `
select event_id as id from (${scan(look)}) scanned offset ${SCAN_MAX - 1}`;

export type DeliveryPage = PageOf<WebhookDelivery> & {
  /** The last delivery that was looked at, when the look ended before the list did. */
  scannedUntil: string | null;
};

/** Newest first. */
export async function listDeliveries(
  db: Queryable,
  scope: Scope,
  { endpointId, status, page }: { endpointId: string; status: DeliveryStatus | null; page: Page },
): Promise<DeliveryPage> {
  const order = page.before === null ? 'desc' : 'asc';
  const look: Look = { order, failed: status === 'failed' };
  const where = [scope.projectId, scope.environment, endpointId, page.before ?? page.after];
  const values = [...where, status, page.limit + 1];
  const found = pageOf(await db.query<WebhookDelivery>(list(look), values), page);
  if (found.hasMore || status === null) return { ...found, scannedUntil: null };
  const [last] = await db.query<{ id: string }>(lastScanned(look), where);
  return { ...found, hasMore: last !== undefined, scannedUntil: last?.id ?? null };
}

const FIND_DELIVERY = `
select ${DELIVERY_COLUMNS}, d.log, e.event
  from webhook_deliveries d${WAITING}
  left join lateral (
    select json_build_object('type', e.type, 'createdAt', wire_time(e.created_at),
                             'data', e.data::text) as event
      from events e
     where e.project_id = d.project_id and e.subject_id = d.subject_id and e.seq = d.seq
     limit 1) e on true
 where d.project_id = $1 and d.environment = $2 and d.endpoint_id = $3 and d.event_id = $4`;

export async function findDelivery(
  db: Queryable,
  scope: Scope,
  { endpointId, id }: { endpointId: string; id: string },
): Promise<WebhookDeliveryDetail | null> {
  const values = [scope.projectId, scope.environment, endpointId, id];
  const [row] = await db.query<WebhookDeliveryDetail>(FIND_DELIVERY, values);
  return row ?? null;
}

// Ids are made by the processes' clocks, created_at by the database's: the margin is for both.
const ID_MARGIN_MS = 5 * 60_000;

const findRange = (failed: boolean) => `
select d.event_id as id from webhook_deliveries d
 where d.project_id = $1 and d.environment = $2 and d.endpoint_id = $3
   and d.event_id >= $4 and d.event_id < $5 and d.created_at >= $6 and d.created_at < $7
   and ($8::text is null or d.status = $8) and ${onlyFailed(failed)}
 order by d.event_id
 limit $9`;

/** Ids of deliveries of events from `since` (inclusive) to `until`, oldest first. */
export async function findDeliveryIds(
  db: Queryable,
  scope: Scope,
  range: {
    endpointId: string;
    since: Date;
    until: Date;
    status: DeliveryStatus | null;
    limit: number;
  },
): Promise<string[]> {
  const rows = await db.query<{ id: string }>(findRange(range.status === 'failed'), [
    scope.projectId,
    scope.environment,
    range.endpointId,
    firstUuidOf(Math.max(0, range.since.getTime() - ID_MARGIN_MS)),
    firstUuidOf(range.until.getTime() + ID_MARGIN_MS),
    range.since,
    range.until,
    range.status,
    range.limit,
  ]);
  return rows.map((row) => row.id);
}

// The queue row first, then the delivery: the order in which webhook-queue.ts locks them.
const REPLAY = `
with wanted as materialized (
  select d.project_id, d.endpoint_id, d.event_id from webhook_deliveries d
   where d.project_id = $1 and d.environment = $2 and d.endpoint_id = $3
     and d.event_id = any($4::uuid[])
),
queued as (
  insert into webhook_queue as q (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, app_now() from wanted order by event_id
  on conflict (endpoint_id, event_id) do update set due_at = excluded.due_at, attempts = 0
   where q.holder is null
  returning q.event_id
),
asked as (
  update nodes set checks_asked = checks_asked + 1
   where id = any(array(select q.holder from wanted w join webhook_queue q
                            on q.endpoint_id = w.endpoint_id and q.event_id = w.event_id
                         where q.holder is not null))
),
rested as (
  update webhook_endpoints set blocked_until = app_now()
   where project_id = $1 and id = $3 and blocked_until > app_now()
)
update webhook_deliveries d set status = 'pending', completed_at = null
  from queued q
 where d.project_id = $1 and d.endpoint_id = $3 and d.event_id = q.event_id
   and d.event_id = any($4::uuid[])`;

/**
 * Queues deliveries to be sent again now, their schedule started anew, under their old ids; those
 * that are being sent at this moment are left alone, and their worker is asked whether it knows of
 * them. An endpoint that rests is tried at once.
 */
export async function replayDeliveries(
  db: Queryable,
  scope: Scope,
  { endpointId, ids }: { endpointId: string; ids: readonly string[] },
): Promise<void> {
  await db.query(REPLAY, [scope.projectId, scope.environment, endpointId, ids]);
}

const RECORD_TEST = `
with new_event as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  values ($1, $2, $4, 1, $4, $5, $6, $7::json)
)
insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                type, status, attempts, created_at, completed_at, log)
values ($1, $2, $3, $4, $4, 1, $5, $8, 1, $6, app_now(), jsonb_build_array($9::jsonb))`;

/** Records a test that was made: event and delivery, ended. */
export async function recordTest(
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
