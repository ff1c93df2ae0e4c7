/**
 * The queue of webhooks: finding endpoints with something due, claiming, giving back.
 *
 * Claims are made per endpoint, so that 50 000 events waiting for a dead one delay nobody. To find
 * the endpoints, the loop looks at what became due since its last look: rows by their due time,
 * endpoints by the end of their rest. So whoever wants something looked at again, on any node, sets
 * its time to now (a takeover, a replay, a change of the endpoint). Outcomes are fenced by holder
 * and claim: webhook-settle.ts.
 */
import type { Queryable } from './postgres/database.ts';
import type { SealedSecrets } from './webhook-endpoints.ts';

/** A place in the queue to claim from: an endpoint, from a due time on. */
export type Endpoint = {
  projectId: string;
  endpointId: string;
  /** Nothing due before this waits unclaimed; milliseconds since 1970, -Infinity: anything may. */
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
       e.status is distinct from 'enabled' as "isClosed",
       floor(extract(epoch from t.now) * 1000)::float8 as "nowMs"
  from t left join due d on true
  left join webhook_endpoints e on e.project_id = d.project_id and e.id = d.endpoint_id`;

export type DueEndpoint = Endpoint & {
  /** The endpoint is disabled or deleted: what waits for it ends. */
  isClosed: boolean;
};

/**
 * Endpoints for which something became due, or whose rest ended, after `sinceMs`.
 * @returns `nowMs`: the database's time of this look
 */
export async function findDueEndpoints(
  db: Queryable,
  sinceMs: number,
): Promise<{ endpoints: DueEndpoint[]; nowMs: number }> {
  type Row = DueEndpoint & { nowMs: number };
  const rows = await db.query<Row | { projectId: null; nowMs: number }>(
    { name: 'webhooks_due', text: FIND_DUE },
    [sinceMs],
  );
  return {
    endpoints: rows.filter((row): row is Row => row.projectId !== null),
    nowMs: rows[0]?.nowMs ?? sinceMs,
  };
}

export type ClaimedWebhook = SealedSecrets & {
  projectId: string;
  endpointId: string;
  eventId: string;
  claim: number;
  /** Failed attempts since it was queued. */
  attempts: number;
  dueAtMs: number;
  url: string;
  /** Null, like the next two, when delivery or event are no longer stored. */
  type: string | null;
  /** ISO 8601. */
  createdAt: string | null;
  /** JSON text, byte for byte as recorded. */
  data: string | null;
};

/** An endpoint with this many failures in a row gets one attempt at a time, between rests. */
export const TROUBLE_FAILURES = 5;

// The look-ups are lateral with a limit: one index probe each, whatever the planner believes.
const CLAIM = `
with t as materialized (select app_now() as now),
endpoint as materialized (
  select e.id, e.url, e.secret, to_timestamp(l.low_water_ms / 1000) as low_water,
         case when e.previous_secret_expires_at > t.now then e.previous_secret end
           as previous_secret,
         case when e.failures >= ${TROUBLE_FAILURES} then least(l.room, 1) else l.room end as room
    from t, unnest($2::uuid[], $3::uuid[], $4::float8[], $5::int[])
              as l(project_id, endpoint_id, low_water_ms, room)
    join webhook_endpoints e on e.project_id = l.project_id and e.id = l.endpoint_id
   where e.status = 'enabled' and (e.blocked_until is null or e.blocked_until <= t.now)
),
due as materialized (
  select q.* from t, endpoint l cross join lateral (
    select q.endpoint_id, q.event_id from webhook_queue q
     where q.endpoint_id = l.id and q.holder is null
       and q.due_at >= l.low_water and q.due_at <= t.now
     order by q.due_at limit l.room for update skip locked) q
),
claimed as (
  update webhook_queue q set holder = $1::uuid, claim = q.claim + 1 from due
   where q.endpoint_id = due.endpoint_id and q.event_id = due.event_id
  returning q.*
)
select c.project_id as "projectId", c.endpoint_id as "endpointId", c.event_id as "eventId", c.claim,
       c.attempts, floor(extract(epoch from c.due_at) * 1000)::float8 as "dueAtMs", l.url, l.secret,
       l.previous_secret as "previousSecret", d.type, wire_time(e.created_at) as "createdAt",
       e.data::text as data
  from claimed c join endpoint l on l.id = c.endpoint_id
  left join lateral (select d.type, d.subject_id, d.seq from webhook_deliveries d
                      where d.project_id = c.project_id and d.endpoint_id = c.endpoint_id
                        and d.event_id = c.event_id limit 1) d on true
  left join lateral (select e.created_at, e.data from events e
                      where e.project_id = c.project_id and e.subject_id = d.subject_id
                        and e.seq = d.seq limit 1) e on true
 order by c.due_at`;

/** Takes what is due for `holder`: of each endpoint up to `room`, oldest first. */
export function claimWebhooks(
  db: Queryable,
  holder: string,
  endpoints: readonly (Endpoint & { room: number })[],
): Promise<ClaimedWebhook[]> {
  return db.query<ClaimedWebhook>({ name: 'webhooks_claim', text: CLAIM }, [
    holder,
    endpoints.map((endpoint) => endpoint.projectId),
    endpoints.map((endpoint) => endpoint.endpointId),
    endpoints.map((endpoint) => endpoint.lowWaterMs),
    endpoints.map((endpoint) => endpoint.room),
  ]);
}

const RELEASE = `
update webhook_queue q
   set holder = null, due_at = app_now() + $5::int * interval '1 millisecond'
  from unnest($2::uuid[], $3::uuid[], $4::int[]) as i(endpoint_id, event_id, claim)
 where q.endpoint_id = i.endpoint_id and q.event_id = i.event_id and q.claim = i.claim
   and q.holder = $1::uuid`;

/** Gives back what was claimed and not told; it is due again after `delayMs`. */
export async function releaseWebhooks(
  db: Queryable,
  claims: readonly Pick<ClaimedWebhook, 'endpointId' | 'eventId' | 'claim'>[],
  { holder, delayMs }: { holder: string; delayMs: number },
): Promise<void> {
  await db.query({ name: 'webhooks_release', text: RELEASE }, [
    holder,
    claims.map((claim) => claim.endpointId),
    claims.map((claim) => claim.eventId),
    claims.map((claim) => claim.claim),
    delayMs,
  ]);
}

const RELEASE_STRAYS = `
update webhook_queue q set holder = null, due_at = app_now()
 where q.holder = $1::uuid
   and not exists (select from unnest($2::uuid[], $3::uuid[]) as k(endpoint_id, event_id)
                    where k.endpoint_id = q.endpoint_id and k.event_id = q.event_id)
returning 1`;

/**
 * Gives back everything that `holder` has and does not know of: the answer to a claim was lost.
 * @returns how many
 */
export async function releaseStrayWebhooks(
  db: Queryable,
  holder: string,
  known: readonly Pick<ClaimedWebhook, 'endpointId' | 'eventId'>[],
): Promise<number> {
  const endpointIds = known.map((claim) => claim.endpointId);
  const eventIds = known.map((claim) => claim.eventId);
  return (await db.query(RELEASE_STRAYS, [holder, endpointIds, eventIds])).length;
}

// The order, and the ids as an array: with statistics of one busy endpoint the whole queue was read.
const END_CLOSED = `
with ended as materialized (
  select q.event_id from webhook_queue q
   where q.endpoint_id = $2 and q.holder is null
     and not exists (select from webhook_endpoints e
                      where e.project_id = $1 and e.id = $2 and e.status = 'enabled')
   order by q.due_at limit $3 for update skip locked
),
gone as (
  delete from webhook_queue q
   where q.endpoint_id = $2 and q.event_id = any(array(select event_id from ended))
),
failed as (
  update webhook_deliveries d set status = 'failed', completed_at = app_now()
   where d.project_id = $1 and d.endpoint_id = $2
     and d.event_id = any(array(select event_id from ended))
)
select count(*)::int as ended from ended`;

/**
 * Ends up to `limit` deliveries that wait for an endpoint that is disabled or deleted, however far
 * off their next attempt was.
 * @returns how many ended
 */
export async function endClosedEndpoint(
  db: Queryable,
  endpoint: Pick<Endpoint, 'projectId' | 'endpointId'>,
  limit: number,
): Promise<number> {
  const [row] = await db.query<{ ended: number }>(
    { name: 'webhooks_end_closed', text: END_CLOSED },
    [endpoint.projectId, endpoint.endpointId, limit],
  );
  return row?.ended ?? 0;
}
