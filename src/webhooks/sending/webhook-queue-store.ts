/**
 * The queue of webhooks: finds endpoints with due deliveries, claims, releases and settles.
 *
 * Claims are made per endpoint, so that 50,000 events for an unreachable one delay no other. The loop finds the
 * endpoints by what became due since its last search: rows by their due time, endpoints by the end of their
 * suspension. A change that every node must notice (a reclaimed worker, a replay, a change of the endpoint) therefore
 * sets that time to now.
 *
 * Guarantee: an outcome counts only while its queue row has this lease id and this claim.
 */
import { EVENT_DATA, EVENT_EMAIL } from '../../events/event-store.ts';
import type { Queryable } from '../../database/database.ts';
import { createLeasedTable } from '../../database/leased-table.ts';
import type { DeliveryStatus, LoggedAttempt } from '../delivery-store.ts';
import type { PayloadFormat, SealedSecrets } from '../endpoint-store.ts';
import { type EndpointHealth, type HealthFacts, SUSPENSION_FAILURES } from '../endpoint-health.ts';

export type Endpoint = {
  projectId: string;
  endpointId: string;
  /** No unclaimed delivery is due before this time. Milliseconds since 1970; -Infinity when unknown. */
  lowWaterMs: number;
};

const FIND_DUE = `
with clock as materialized (
  select app_now() as now, to_timestamp($1::float8 / 1000) as since
),
due as materialized (
  select webhook_queue.project_id, webhook_queue.endpoint_id, min(webhook_queue.due_at) as low_water
    from clock, webhook_queue
   where webhook_queue.holder is null and webhook_queue.claim >= 0 and webhook_queue.due_at > clock.since
     and webhook_queue.due_at <= clock.now
   group by 1, 2
  union all
  select webhook_endpoints.project_id, webhook_endpoints.id, '-infinity' from clock, webhook_endpoints
   where webhook_endpoints.blocked_until > clock.since and webhook_endpoints.blocked_until <= clock.now
)
select due.project_id as "projectId", due.endpoint_id as "endpointId",
       floor(extract(epoch from due.low_water) * 1000)::float8 as "lowWaterMs",
       webhook_endpoints.status is distinct from 'enabled' as "isInactive",
       floor(extract(epoch from clock.now) * 1000)::float8 as "nowMs",
       exists (select from webhook_replays where status = 'running') as "hasReplays"
  from clock left join due on true
  left join webhook_endpoints on webhook_endpoints.project_id = due.project_id
       and webhook_endpoints.id = due.endpoint_id`;

export type DueEndpoint = Endpoint & {
  /** The endpoint is disabled or deleted, so its pending deliveries end. */
  isInactive: boolean;
};

/**
 * Finds endpoints whose deliveries became due, or whose suspension ended, after `sinceMs`.
 * @returns `nowMs`: the database's time of this search; `hasReplays`: a replay is running (replay-store.ts)
 */
export async function findDueEndpoints(
  db: Queryable,
  sinceMs: number,
): Promise<{ endpoints: DueEndpoint[]; nowMs: number; hasReplays: boolean }> {
  type Row = DueEndpoint & { nowMs: number; hasReplays: boolean };
  const rows = await db.query<Row | { projectId: null; nowMs: number; hasReplays: boolean }>(
    { name: 'webhooks_due', text: FIND_DUE },
    [sinceMs],
  );
  return {
    endpoints: rows.filter((row): row is Row => row.projectId !== null),
    nowMs: rows[0]?.nowMs ?? sinceMs,
    hasReplays: rows[0]?.hasReplays ?? false,
  };
}

export type ClaimedDelivery = SealedSecrets & {
  leaseId: string;
  projectId: string;
  endpointId: string;
  eventId: string;
  claim: number;
  attempts: number;
  dueAtMs: number;
  url: string;
  format: PayloadFormat;
  /** Null, like the next two, when delivery or event are no longer stored. */
  type: string | null;
  createdAt: string | null;
  /** JSON text with the same bytes for each attempt. */
  data: string | null;
};

// Lateral look-ups with a limit force one index probe each.
const CLAIM = `
with clock as materialized (select app_now() as now),
endpoint as materialized (
  select webhook_endpoints.id, webhook_endpoints.url, webhook_endpoints.payload_format,
         webhook_endpoints.secret, to_timestamp(endpoint.low_water_ms / 1000) as low_water,
         case when webhook_endpoints.previous_secret_expires_at > clock.now
              then webhook_endpoints.previous_secret end
           as previous_secret,
         case when webhook_endpoints.earlier_secret_expires_at > clock.now
              then webhook_endpoints.earlier_secret end
           as earlier_secret,
         case when webhook_endpoints.failures >= ${SUSPENSION_FAILURES} then least(endpoint.max_count, 1)
              else endpoint.max_count end as max_count
    from clock, unnest($2::uuid[], $3::uuid[], $4::float8[], $5::int[])
              as endpoint(project_id, endpoint_id, low_water_ms, max_count)
    join webhook_endpoints on webhook_endpoints.project_id = endpoint.project_id
         and webhook_endpoints.id = endpoint.endpoint_id
   where webhook_endpoints.status = 'enabled'
     and (webhook_endpoints.blocked_until is null or webhook_endpoints.blocked_until <= clock.now)
),
due as materialized (
  select webhook_queue.* from clock, endpoint cross join lateral (
    select webhook_queue.project_id, webhook_queue.endpoint_id, webhook_queue.event_id from webhook_queue
     where webhook_queue.endpoint_id = endpoint.id and webhook_queue.holder is null
       and webhook_queue.due_at >= endpoint.low_water and webhook_queue.due_at <= clock.now
     order by webhook_queue.due_at limit endpoint.max_count for update skip locked) webhook_queue
),
claimed as (
  update webhook_queue set holder = $1::uuid, claim = webhook_queue.claim + 1 from due
   where webhook_queue.project_id = due.project_id and webhook_queue.event_id = due.event_id
     and webhook_queue.endpoint_id = due.endpoint_id
  returning webhook_queue.*
)
select claimed.holder as "leaseId", claimed.project_id as "projectId", claimed.endpoint_id as "endpointId",
       claimed.event_id as "eventId",
       claimed.claim, claimed.attempts, floor(extract(epoch from claimed.due_at) * 1000)::float8 as "dueAtMs",
       endpoint.url, endpoint.payload_format as format, endpoint.secret,
       endpoint.previous_secret as "previousSecret",
       endpoint.earlier_secret as "earlierSecret", webhook_deliveries.type,
       wire_time(event.created_at) as "createdAt",
       event.data::text as data
  from claimed join endpoint on endpoint.id = claimed.endpoint_id
  left join lateral (select webhook_deliveries.type, webhook_deliveries.subject_id,
                     webhook_deliveries.seq from webhook_deliveries
                      where webhook_deliveries.project_id = claimed.project_id
                        and webhook_deliveries.endpoint_id = claimed.endpoint_id
                        and webhook_deliveries.event_id = claimed.event_id limit 1) webhook_deliveries on true
  left join lateral (select event.created_at, ${EVENT_DATA('event')} as data
                       from events event${EVENT_EMAIL('event')}
                      where event.project_id = claimed.project_id
                        and event.subject_id = webhook_deliveries.subject_id
                        and event.seq = webhook_deliveries.seq limit 1) event on true
 order by claimed.due_at`;

export function claimWebhooks(
  db: Queryable,
  leaseId: string,
  endpoints: readonly (Endpoint & { max: number })[],
): Promise<ClaimedDelivery[]> {
  return db.query<ClaimedDelivery>({ name: 'webhooks_claim', text: CLAIM }, [
    leaseId,
    endpoints.map((endpoint) => endpoint.projectId),
    endpoints.map((endpoint) => endpoint.endpointId),
    endpoints.map((endpoint) => endpoint.lowWaterMs),
    endpoints.map((endpoint) => endpoint.max),
  ]);
}

export type WebhookKey = Pick<ClaimedDelivery, 'endpointId' | 'eventId'>;
export type WebhookClaim = WebhookKey & Pick<ClaimedDelivery, 'projectId' | 'claim'>;

export const WEBHOOKS = createLeasedTable<WebhookKey, WebhookClaim>({
  name: 'webhook_queue',
  rowNoun: 'webhooks',
  key: { endpoint_id: 'uuid', event_id: 'uuid' },
  setClause: `due_at = app_now() + input.delay_ms * interval '1 millisecond'`,
  mayBeInFlight: () => false,
});

// Sorted, with the ids as an array: with statistics of one busy endpoint, the planner read the whole queue.
const FAIL_PENDING = `
with ended as materialized (
  select webhook_queue.event_id from webhook_queue
   where webhook_queue.endpoint_id = $2 and webhook_queue.holder is null
     and not exists (select from webhook_endpoints
                      where webhook_endpoints.project_id = $1 and webhook_endpoints.id = $2
                        and webhook_endpoints.status = 'enabled')
   order by webhook_queue.due_at limit $3 for update skip locked
),
gone as (
  delete from webhook_queue
   where webhook_queue.project_id = $1 and webhook_queue.endpoint_id = $2
     and webhook_queue.event_id = any(array(select event_id from ended))
),
failed as (
  update webhook_deliveries set status = 'failed', completed_at = app_now()
   where webhook_deliveries.project_id = $1 and webhook_deliveries.endpoint_id = $2
     and webhook_deliveries.event_id = any(array(select event_id from ended))
)
select count(*)::int as ended from ended`;

/**
 * Ends up to `limit` pending deliveries, whenever their next attempt is due.
 * @returns the number of deliveries that ended
 */
export async function failPendingDeliveries(
  db: Queryable,
  endpoint: Pick<Endpoint, 'projectId' | 'endpointId'>,
  limit: number,
): Promise<number> {
  const [row] = await db.query<{ ended: number }>(
    { name: 'webhooks_fail_pending', text: FAIL_PENDING },
    [endpoint.projectId, endpoint.endpointId, limit],
  );
  return row?.ended ?? 0;
}

export type EndpointFacts = HealthFacts & {
  projectId: string;
  endpointId: string;
  /** Changes with every change of the endpoint. */
  version: string;
};

const HEALTH = `
select webhook_endpoints.project_id as "projectId", webhook_endpoints.id as "endpointId",
       webhook_endpoints.version::text, webhook_endpoints.status,
       webhook_endpoints.disabled_reason as "disabledReason", webhook_endpoints.failures,
       wire_time(webhook_endpoints.failing_since) as "failingSince",
       coalesce(extract(epoch from app_now() - webhook_endpoints.failing_since), 0)::float8 * 1000
         as "failingForMs",
       webhook_endpoints.blocked_until is not null as "wasSuspended"
  from unnest($1::uuid[], $2::uuid[]) as input(project_id, id)
 cross join lateral (
    select webhook_endpoints.*, webhook_endpoints.xmin as version from webhook_endpoints
     where webhook_endpoints.project_id = input.project_id
       and webhook_endpoints.id = input.id limit 1) webhook_endpoints`;

/** Reads the health of endpoints without a lock. Deleted endpoints are left out. */
export function readHealth(
  db: Queryable,
  endpoints: readonly Pick<Endpoint, 'projectId' | 'endpointId'>[],
): Promise<EndpointFacts[]> {
  return db.query<EndpointFacts>({ name: 'webhooks_health', text: HEALTH }, [
    endpoints.map(({ projectId }) => projectId),
    endpoints.map(({ endpointId }) => endpointId),
  ]);
}

export type DecidedHealth = EndpointFacts &
  EndpointHealth & {
    /** The last failed attempt of a batch; null when none failed. */
    lastFailure: Omit<LoggedAttempt, 'at'> | null;
  };

export type WebhookSettlement = Pick<
  ClaimedDelivery,
  'projectId' | 'endpointId' | 'eventId' | 'claim' | 'attempts'
> & {
  /** `pending`: due again in `retryMs`. */
  status: DeliveryStatus;
  retryMs: number | null;
  /** Null when the event is no longer stored. */
  attempt: Omit<LoggedAttempt, 'at'> | null;
};

/**
 * Stores everything or nothing. It stores nothing when a delivery is no longer leased, when an endpoint changed after
 * its health was read, or when an endpoint that was assumed healthy is failing. Lock order: rows of the queue, then
 * endpoints by id. The ids are repeated wherever rows are changed, so that any join plan starts from them.
 */
const SETTLE = `
with clock as materialized (select app_now() as now),
input as materialized (
  select input.* from json_to_recordset($1::json) as input(
    ord int, project_id uuid, endpoint_id uuid, event_id uuid, claim int, attempts int, status text,
    retry_ms float8, attempt jsonb)
),
leased as materialized (
  select input.* from input cross join lateral (
    select from webhook_queue
     where webhook_queue.project_id = input.project_id and webhook_queue.event_id = input.event_id
       and webhook_queue.endpoint_id = input.endpoint_id and webhook_queue.holder = $5::uuid
       and webhook_queue.claim = input.claim for update) webhook_queue
),
health as materialized (
  select health.* from json_to_recordset($6::json) as health(
    project_id uuid, endpoint_id uuid, version text, failures int, is_failing boolean,
    disabled_reason text, suspended_ms float8, last_failure jsonb, failed_ms_ago float8)
),
endpoint as materialized (
  select webhook_endpoints.id from webhook_endpoints
   where (webhook_endpoints.project_id, webhook_endpoints.id, webhook_endpoints.xmin::text) in (
           select project_id, endpoint_id, version from health)
     and (select count(*) from leased) = cardinality($4::uuid[])
   order by webhook_endpoints.id for update
),
agreed as materialized (
  select clock.now from clock
   where (select count(*) from leased) = cardinality($4::uuid[])
     and (select count(*) from endpoint) = (select count(*) from health)
     and not ($7::boolean and exists (
       select from unnest($3::uuid[]) input(id)
        cross join lateral (select webhook_endpoints.failing_since from webhook_endpoints
                             where webhook_endpoints.project_id = any($2::uuid[])
                               and webhook_endpoints.id = input.id limit 1) webhook_endpoints
        where webhook_endpoints.failing_since is not null))
),
judged as (
  update webhook_endpoints
     set failures = health.failures, disabled_reason = health.disabled_reason,
         failing_since = case when health.is_failing
                              then coalesce(webhook_endpoints.failing_since, agreed.now) end,
         last_failure = case when health.last_failure is null then webhook_endpoints.last_failure
                             else jsonb_build_object('at', wire_time(
                               agreed.now - health.failed_ms_ago * interval '1 millisecond'))
                               || health.last_failure end,
         status = case when health.disabled_reason is null then webhook_endpoints.status else 'disabled' end,
         blocked_until = case when health.suspended_ms is null then webhook_endpoints.blocked_until
                              else agreed.now + health.suspended_ms * interval '1 millisecond' end
    from agreed, health
   where webhook_endpoints.project_id = health.project_id and webhook_endpoints.id = health.endpoint_id
),
logged as (
  update webhook_deliveries
     set status = leased.status, attempts = webhook_deliveries.attempts + (leased.attempt is not null)::int,
         completed_at = case when leased.status <> 'pending' then agreed.now end,
         log = case when leased.attempt is null then webhook_deliveries.log
                    when jsonb_array_length(webhook_deliveries.log) < 20 then webhook_deliveries.log
                    else webhook_deliveries.log - 0 end
               || case when leased.attempt is null then '[]' else jsonb_build_array(
                    jsonb_build_object('at', wire_time(
                      agreed.now - (leased.attempt->'latency_ms')::float8 * interval '1 millisecond'))
                    || leased.attempt) end
    from agreed, leased
   where webhook_deliveries.project_id = leased.project_id
     and webhook_deliveries.endpoint_id = leased.endpoint_id
     and webhook_deliveries.event_id = leased.event_id and webhook_deliveries.project_id = any($2::uuid[])
     and webhook_deliveries.endpoint_id = any($3::uuid[]) and webhook_deliveries.event_id = any($4::uuid[])
),
finished as (
  delete from webhook_queue using agreed, leased
   where webhook_queue.project_id = leased.project_id and webhook_queue.event_id = leased.event_id
     and webhook_queue.endpoint_id = leased.endpoint_id and leased.status <> 'pending'
     and webhook_queue.project_id = any($2::uuid[]) and webhook_queue.event_id = any($4::uuid[])
),
again as (
  update webhook_queue
     set holder = null, attempts = leased.attempts + 1,
         due_at = agreed.now + leased.retry_ms * interval '1 millisecond'
    from agreed, leased
   where webhook_queue.project_id = leased.project_id and webhook_queue.event_id = leased.event_id
     and webhook_queue.endpoint_id = leased.endpoint_id and leased.status = 'pending'
     and webhook_queue.project_id = any($2::uuid[]) and webhook_queue.event_id = any($4::uuid[])
)
select leased.ord, exists (select from agreed) as "isStored" from leased`;

/**
 * Stores outcomes of leased deliveries, and the health of their endpoints, in one statement.
 * @returns the outcomes that belong to the lease `leaseId`, and whether all of them are stored
 */
export async function settleWebhooks(
  db: Queryable,
  settlements: readonly WebhookSettlement[],
  decision: {
    leaseId: string;
    health: readonly DecidedHealth[];
    /** No endpoint is failing. The statement checks this, because the health was not read. */
    assumesHealthy: boolean;
  },
): Promise<{ leased: ReadonlySet<number>; isStored: boolean }> {
  const rows = await db.query<{ ord: number; isStored: boolean }>(
    { name: 'webhooks_settle', text: SETTLE },
    [
      JSON.stringify(settlements.map(settlementInput)),
      [...new Set(settlements.map(({ projectId }) => projectId))],
      [...new Set(settlements.map(({ endpointId }) => endpointId))],
      settlements.map(({ eventId }) => eventId),
      decision.leaseId,
      JSON.stringify(decision.health.map(healthInput)),
      decision.assumesHealthy,
    ],
  );
  return { leased: new Set(rows.map(({ ord }) => ord)), isStored: rows[0]?.isStored ?? false };
}

function settlementInput(settlement: WebhookSettlement, ord: number): object {
  const { projectId, endpointId, eventId, claim, attempts, status, attempt } = settlement;
  const ids = { project_id: projectId, endpoint_id: endpointId, event_id: eventId };
  return { ord, ...ids, claim, attempts, status, retry_ms: settlement.retryMs, attempt };
}

/** Characters of a response that an endpoint keeps; its delivery keeps more. */
const ANSWER_CHARACTERS = 200;

function healthInput(endpoint: DecidedHealth): object {
  const { lastFailure: failure } = endpoint;
  return {
    project_id: endpoint.projectId,
    endpoint_id: endpoint.endpointId,
    version: endpoint.version,
    failures: endpoint.failures,
    is_failing: endpoint.isFailing,
    disabled_reason: endpoint.disabledReason,
    suspended_ms: endpoint.suspendedMs,
    last_failure: failure && {
      status: failure.status,
      answer: failure.answer?.slice(0, ANSWER_CHARACTERS).toWellFormed() ?? null,
      error: failure.error,
    },
    failed_ms_ago: failure?.latency_ms ?? 0,
  };
}
