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
with t as materialized (
  select app_now() as now, to_timestamp($1::float8 / 1000) as since
),
due as materialized (
  select q.project_id, q.endpoint_id, min(q.due_at) as low_water
    from t, webhook_queue q
   where q.holder is null and q.claim >= 0 and q.due_at > t.since and q.due_at <= t.now
   group by 1, 2
  union all
  select e.project_id, e.id, '-infinity' from t, webhook_endpoints e
   where e.blocked_until > t.since and e.blocked_until <= t.now
)
select d.project_id as "projectId", d.endpoint_id as "endpointId",
       floor(extract(epoch from d.low_water) * 1000)::float8 as "lowWaterMs",
       e.status is distinct from 'enabled' as "isInactive",
       floor(extract(epoch from t.now) * 1000)::float8 as "nowMs",
       exists (select from webhook_replays where status = 'running') as "hasReplays"
  from t left join due d on true
  left join webhook_endpoints e on e.project_id = d.project_id and e.id = d.endpoint_id`;

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
with t as materialized (select app_now() as now),
endpoint as materialized (
  select e.id, e.url, e.payload_format, e.secret, to_timestamp(l.low_water_ms / 1000) as low_water,
         case when e.previous_secret_expires_at > t.now then e.previous_secret end
           as previous_secret,
         case when e.earlier_secret_expires_at > t.now then e.earlier_secret end as earlier_secret,
         case when e.failures >= ${SUSPENSION_FAILURES} then least(l.max_count, 1)
              else l.max_count end as max_count
    from t, unnest($2::uuid[], $3::uuid[], $4::float8[], $5::int[])
              as l(project_id, endpoint_id, low_water_ms, max_count)
    join webhook_endpoints e on e.project_id = l.project_id and e.id = l.endpoint_id
   where e.status = 'enabled' and (e.blocked_until is null or e.blocked_until <= t.now)
),
due as materialized (
  select q.* from t, endpoint l cross join lateral (
    select q.project_id, q.endpoint_id, q.event_id from webhook_queue q
     where q.endpoint_id = l.id and q.holder is null
       and q.due_at >= l.low_water and q.due_at <= t.now
     order by q.due_at limit l.max_count for update skip locked) q
),
claimed as (
  update webhook_queue q set holder = $1::uuid, claim = q.claim + 1 from due
   where q.project_id = due.project_id and q.event_id = due.event_id
     and q.endpoint_id = due.endpoint_id
  returning q.*
)
select c.holder as "leaseId", c.project_id as "projectId", c.endpoint_id as "endpointId", c.event_id as "eventId",
       c.claim, c.attempts, floor(extract(epoch from c.due_at) * 1000)::float8 as "dueAtMs",
       l.url, l.payload_format as format, l.secret, l.previous_secret as "previousSecret",
       l.earlier_secret as "earlierSecret", d.type, wire_time(e.created_at) as "createdAt",
       e.data::text as data
  from claimed c join endpoint l on l.id = c.endpoint_id
  left join lateral (select d.type, d.subject_id, d.seq from webhook_deliveries d
                      where d.project_id = c.project_id and d.endpoint_id = c.endpoint_id
                        and d.event_id = c.event_id limit 1) d on true
  left join lateral (select e.created_at, ${EVENT_DATA('e')} as data
                       from events e${EVENT_EMAIL('e')}
                      where e.project_id = c.project_id and e.subject_id = d.subject_id
                        and e.seq = d.seq limit 1) e on true
 order by c.due_at`;

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
  setClause: `due_at = app_now() + i.delay_ms * interval '1 millisecond'`,
  mayBeInFlight: () => false,
});

// Sorted, with the ids as an array: with statistics of one busy endpoint, the planner read the whole queue.
const FAIL_PENDING = `
with ended as materialized (
  select q.event_id from webhook_queue q
   where q.endpoint_id = $2 and q.holder is null
     and not exists (select from webhook_endpoints e
                      where e.project_id = $1 and e.id = $2 and e.status = 'enabled')
   order by q.due_at limit $3 for update skip locked
),
gone as (
  delete from webhook_queue q
   where q.project_id = $1 and q.endpoint_id = $2
     and q.event_id = any(array(select event_id from ended))
),
failed as (
  update webhook_deliveries d set status = 'failed', completed_at = app_now()
   where d.project_id = $1 and d.endpoint_id = $2
     and d.event_id = any(array(select event_id from ended))
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
select e.project_id as "projectId", e.id as "endpointId", e.version::text, e.status,
       e.disabled_reason as "disabledReason", e.failures, wire_time(e.failing_since) as "failingSince",
       coalesce(extract(epoch from app_now() - e.failing_since), 0)::float8 * 1000 as "failingForMs",
       e.blocked_until is not null as "wasSuspended"
  from unnest($1::uuid[], $2::uuid[]) as i(project_id, id)
 cross join lateral (
    select e.*, e.xmin as version from webhook_endpoints e
     where e.project_id = i.project_id and e.id = i.id limit 1) e`;

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
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    ord int, project_id uuid, endpoint_id uuid, event_id uuid, claim int, attempts int, status text,
    retry_ms float8, attempt jsonb)
),
leased as materialized (
  select i.* from input i cross join lateral (
    select from webhook_queue q
     where q.project_id = i.project_id and q.event_id = i.event_id
       and q.endpoint_id = i.endpoint_id and q.holder = $5::uuid and q.claim = i.claim for update) q
),
health as materialized (
  select h.* from json_to_recordset($6::json) as h(
    project_id uuid, endpoint_id uuid, version text, failures int, is_failing boolean,
    disabled_reason text, suspended_ms float8)
),
endpoint as materialized (
  select e.id from webhook_endpoints e
   where (e.project_id, e.id, e.xmin::text) in (select project_id, endpoint_id, version from health)
     and (select count(*) from leased) = cardinality($4::uuid[])
   order by e.id for update
),
agreed as materialized (
  select t.now from t
   where (select count(*) from leased) = cardinality($4::uuid[])
     and (select count(*) from endpoint) = (select count(*) from health)
     and not ($7::boolean and exists (
       select from unnest($3::uuid[]) i(id)
        cross join lateral (select e.failing_since from webhook_endpoints e
                             where e.project_id = any($2::uuid[]) and e.id = i.id limit 1) e
        where e.failing_since is not null))
),
judged as (
  update webhook_endpoints e
     set failures = h.failures, disabled_reason = h.disabled_reason,
         failing_since = case when h.is_failing then coalesce(e.failing_since, a.now) end,
         status = case when h.disabled_reason is null then e.status else 'disabled' end,
         blocked_until = case when h.suspended_ms is null then e.blocked_until
                              else a.now + h.suspended_ms * interval '1 millisecond' end
    from agreed a, health h where e.project_id = h.project_id and e.id = h.endpoint_id
),
logged as (
  update webhook_deliveries d
     set status = l.status, attempts = d.attempts + (l.attempt is not null)::int,
         completed_at = case when l.status <> 'pending' then a.now end,
         log = case when l.attempt is null then d.log
                    when jsonb_array_length(d.log) < 20 then d.log else d.log - 0 end
               || case when l.attempt is null then '[]' else jsonb_build_array(
                    jsonb_build_object('at', wire_time(
                      a.now - (l.attempt->'latency_ms')::float8 * interval '1 millisecond'))
                    || l.attempt) end
    from agreed a, leased l
   where d.project_id = l.project_id and d.endpoint_id = l.endpoint_id
     and d.event_id = l.event_id and d.project_id = any($2::uuid[])
     and d.endpoint_id = any($3::uuid[]) and d.event_id = any($4::uuid[])
),
finished as (
  delete from webhook_queue q using agreed a, leased l
   where q.project_id = l.project_id and q.event_id = l.event_id
     and q.endpoint_id = l.endpoint_id and l.status <> 'pending'
     and q.project_id = any($2::uuid[]) and q.event_id = any($4::uuid[])
),
again as (
  update webhook_queue q
     set holder = null, attempts = l.attempts + 1,
         due_at = a.now + l.retry_ms * interval '1 millisecond'
    from agreed a, leased l
   where q.project_id = l.project_id and q.event_id = l.event_id
     and q.endpoint_id = l.endpoint_id and l.status = 'pending'
     and q.project_id = any($2::uuid[]) and q.event_id = any($4::uuid[])
)
select l.ord, exists (select from agreed) as "isStored" from leased l`;

/**
 * Stores outcomes of leased deliveries, and the health of their endpoints, in one statement.
 * @returns the outcomes that belong to the lease `leaseId`, and whether all of them are stored
 */
export async function settleWebhooks(
  db: Queryable,
  settlements: readonly WebhookSettlement[],
  decision: {
    leaseId: string;
    health: readonly (EndpointFacts & EndpointHealth)[];
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

function healthInput(endpoint: EndpointFacts & EndpointHealth): object {
  return {
    project_id: endpoint.projectId,
    endpoint_id: endpoint.endpointId,
    version: endpoint.version,
    failures: endpoint.failures,
    is_failing: endpoint.isFailing,
    disabled_reason: endpoint.disabledReason,
    suspended_ms: endpoint.suspendedMs,
  };
}
