/**
 * The queue of webhooks: finding endpoints with due deliveries, claiming, releasing, and group commit of
 * outcomes.
 *
 * Claims are made per endpoint, so that 50,000 events waiting for an unreachable one delay no other. To
 * find the endpoints, the loop reads what became due since its last poll: rows by their due time,
 * endpoints by the end of their suspension. A change that every node has to notice (a reclaimed worker, a
 * replay, a change of the endpoint) therefore sets the time to now.
 *
 * Guarantee: an outcome counts only while its queue row has this holder and this claim. Success ends a
 * delivery. A failure makes it due after its delay, or ends it when there is no delay or the endpoint is
 * disabled. A 410 disables an endpoint, and so do five days in which every attempt failed. An outcome that
 * the database refuses is kept and retried (settle/unsettled.ts); its event is not posted again.
 */
import { EVENT_DATA, EVENT_EMAIL } from '../../events/event-store.ts';
import { type Queryable, whenAvailable } from '../../database/database.ts';
import type { LoggedAttempt } from '../delivery-store.ts';
import type { PayloadFormat, SealedSecrets } from '../endpoint-store.ts';
import type { Logger } from 'pino';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import { GroupCommit } from '../../database/group-commit.ts';
import { type Extent, Unsettled } from '../../settle/unsettled.ts';

export type Endpoint = {
  projectId: string;
  endpointId: string;
  /** No delivery due before this is unclaimed; milliseconds since 1970, -Infinity: unknown. */
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
       floor(extract(epoch from t.now) * 1000)::float8 as "nowMs",
       exists (select from webhook_replays where status = 'running') as "hasReplays"
  from t left join due d on true
  left join webhook_endpoints e on e.project_id = d.project_id and e.id = d.endpoint_id`;

export type DueEndpoint = Endpoint & {
  /** The endpoint is disabled or deleted: its waiting deliveries end. */
  isClosed: boolean;
};

/**
 * Endpoints with deliveries that became due, or whose suspension ended, after `sinceMs`.
 * @returns `nowMs`: the database's time of this poll; `hasReplays`: see webhooks/replay-store.ts
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

export type ClaimedWebhook = SealedSecrets & {
  projectId: string;
  endpointId: string;
  eventId: string;
  claim: number;
  /** Failed attempts since it was queued. */
  attempts: number;
  dueAtMs: number;
  url: string;
  format: PayloadFormat;
  /** Null, like the next two, when delivery or event are no longer stored. */
  type: string | null;
  /** ISO 8601. */
  createdAt: string | null;
  /** JSON text, the same bytes each time. */
  data: string | null;
};

/** After this many failures in a row an endpoint gets one attempt at a time, between suspensions. */
export const SUSPENSION_FAILURES = 5;

// The look-ups are lateral with a limit, which forces one index probe each.
const CLAIM = `
with t as materialized (select app_now() as now),
endpoint as materialized (
  select e.id, e.url, e.payload_format, e.secret, to_timestamp(l.low_water_ms / 1000) as low_water,
         case when e.previous_secret_expires_at > t.now then e.previous_secret end
           as previous_secret,
         case when e.earlier_secret_expires_at > t.now then e.earlier_secret end as earlier_secret,
         case when e.failures >= ${SUSPENSION_FAILURES} then least(l.room, 1) else l.room end as room
    from t, unnest($2::uuid[], $3::uuid[], $4::float8[], $5::int[])
              as l(project_id, endpoint_id, low_water_ms, room)
    join webhook_endpoints e on e.project_id = l.project_id and e.id = l.endpoint_id
   where e.status = 'enabled' and (e.blocked_until is null or e.blocked_until <= t.now)
),
due as materialized (
  select q.* from t, endpoint l cross join lateral (
    select q.project_id, q.endpoint_id, q.event_id from webhook_queue q
     where q.endpoint_id = l.id and q.holder is null
       and q.due_at >= l.low_water and q.due_at <= t.now
     order by q.due_at limit l.room for update skip locked) q
),
claimed as (
  update webhook_queue q set holder = $1::uuid, claim = q.claim + 1 from due
   where q.project_id = due.project_id and q.event_id = due.event_id
     and q.endpoint_id = due.endpoint_id
  returning q.*
)
select c.project_id as "projectId", c.endpoint_id as "endpointId", c.event_id as "eventId", c.claim,
       c.attempts, floor(extract(epoch from c.due_at) * 1000)::float8 as "dueAtMs", l.url, l.payload_format as format, l.secret,
       l.previous_secret as "previousSecret", l.earlier_secret as "earlierSecret", d.type, wire_time(e.created_at) as "createdAt",
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

/** Claims due deliveries for `holder`: up to `room` of each endpoint, oldest first. */
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
  from unnest($2::uuid[], $3::uuid[], $4::uuid[], $6::int[])
       as i(project_id, endpoint_id, event_id, claim)
 where q.project_id = i.project_id and q.event_id = i.event_id and q.endpoint_id = i.endpoint_id
   and q.claim = i.claim and q.holder = $1::uuid`;

/** Releases claims that were not sent; they are due again after `delayMs`. */
export async function releaseWebhooks(
  db: Queryable,
  claims: readonly Pick<ClaimedWebhook, 'projectId' | 'endpointId' | 'eventId' | 'claim'>[],
  { holder, delayMs }: { holder: string; delayMs: number },
): Promise<void> {
  await db.query({ name: 'webhooks_release', text: RELEASE }, [
    holder,
    claims.map((claim) => claim.projectId),
    claims.map((claim) => claim.endpointId),
    claims.map((claim) => claim.eventId),
    delayMs,
    claims.map((claim) => claim.claim),
  ]);
}

const RELEASE_UNKNOWN = `
update webhook_queue q set holder = null, due_at = app_now()
 where q.holder = $1::uuid
   and not exists (select from unnest($2::uuid[], $3::uuid[]) as k(endpoint_id, event_id)
                    where k.endpoint_id = q.endpoint_id and k.event_id = q.event_id)
returning 1`;

/**
 * Releases the claims of `holder` that are not in its memory, because the response to a claim was lost.
 * @returns their number
 */
export async function releaseUnknownWebhooks(
  db: Queryable,
  holder: string,
  known: readonly Pick<ClaimedWebhook, 'endpointId' | 'eventId'>[],
): Promise<number> {
  const endpointIds = known.map((claim) => claim.endpointId);
  const eventIds = known.map((claim) => claim.eventId);
  return (await db.query(RELEASE_UNKNOWN, [holder, endpointIds, eventIds])).length;
}

// Ordered, with the ids as an array: with statistics of one busy endpoint the whole queue was read.
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
 * Ends up to `limit` deliveries that wait for a disabled or deleted endpoint, whenever their next attempt
 * is due.
 * @returns the number that ended
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

export type WebhookOutcome = Pick<
  ClaimedWebhook,
  'projectId' | 'endpointId' | 'eventId' | 'claim'
> & {
  holder: string;
  /** `gone`: the endpoint refuses all further webhooks (410). */
  verdict: 'delivered' | 'failed' | 'gone';
  /** Wait before the next attempt; null: this was the last. */
  retryMs: number | null;
  /** How long the endpoint requested no further requests at all. */
  restMs: number;
  /** Null without an attempt: the event is no longer stored. */
  attempt: Omit<LoggedAttempt, 'at'> | null;
};

/** The result of an outcome; `fenced`: not written, because another worker holds the delivery. */
export type SettledWebhook = 'delivered' | 'failed' | 'retried' | 'fenced';

/**
 * Suspends a failing endpoint: 5 s after the fifth failure in a row, doubling to 5 minutes, until a
 * success. `blocked_until = now` instead of null notifies the loops of all nodes. A first attempt never
 * disables: an endpoint with one event a month must not be disabled by a single failure after an old one.
 * Endpoints are locked in one order, and only when their health changes; a healthy one is only read.
 * The ids are repeated wherever rows are changed, so that any join plan starts from them.
 */
const SETTLE = `
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    project_id uuid, endpoint_id uuid, event_id uuid, claim int, holder uuid, verdict text,
    retry_ms float8, rest_ms float8, attempt jsonb)
),
held as materialized (
  select i.*, q.attempts + 1 as number
    from input i cross join lateral (
      select q.attempts from webhook_queue q
       where q.project_id = i.project_id and q.event_id = i.event_id
         and q.endpoint_id = i.endpoint_id and q.holder = i.holder and q.claim = i.claim for update) q
),
tally as materialized (
  select project_id, endpoint_id, bool_or(verdict = 'delivered') as works,
         bool_or(verdict = 'gone') as gone, max(rest_ms) * interval '1 millisecond' as rest,
         (count(*) filter (where verdict <> 'delivered'))::int as failures,
         max(number) filter (where verdict <> 'delivered') as number
    from held where attempt is not null group by 1, 2
),
endpoint as materialized (
  select e.* from webhook_endpoints e
   where (e.project_id, e.id) in (select project_id, endpoint_id from tally)
     and (e.failing_since is not null
          or e.id in (select endpoint_id from tally where failures > 0))
   order by e.id for update
),
health as materialized (
  select e.project_id, e.id, e.status, e.blocked_until, y.works, y.rest,
         case when y.works then 0 else e.failures + y.failures end as failures,
         case when not y.works then coalesce(e.failing_since, t.now) end as failing_since,
         case when e.status = 'disabled' then e.disabled_reason
              when y.gone then 'It answered 410 Gone: it wants no more webhooks.'
              when not y.works and y.number > 1 and e.failing_since <= t.now - interval '5 days'
              then 'Every attempt since ' || wire_time(e.failing_since) || ' failed.'
         end as disabled_reason
    from t, endpoint e join tally y on y.project_id = e.project_id and y.endpoint_id = e.id
),
judged as (
  update webhook_endpoints e
     set failures = h.failures, failing_since = h.failing_since,
         status = case when h.disabled_reason is null then e.status else 'disabled' end,
         disabled_reason = h.disabled_reason,
         blocked_until = case
           when h.disabled_reason is not null then t.now
           when h.works then case when h.blocked_until is not null then t.now end
           when h.failures >= ${SUSPENSION_FAILURES} then t.now + greatest(h.rest,
             least(interval '5 s' * 2 ^ least(h.failures - ${SUSPENSION_FAILURES}, 10), '5 minutes'))
           when h.rest > '0' then t.now + h.rest
           else h.blocked_until end
    from t, health h where e.project_id = h.project_id and e.id = h.id
),
ended as materialized (
  select h.*, case when h.verdict = 'delivered' then 'delivered'
                   when h.retry_ms is null or e.id is null or e.status = 'disabled'
                     or e.disabled_reason is not null then 'failed'
                   else 'pending' end as status
    from held h left join health e on e.project_id = h.project_id and e.id = h.endpoint_id
),
logged as (
  update webhook_deliveries d
     set status = h.status, attempts = d.attempts + (h.attempt is not null)::int,
         completed_at = case when h.status <> 'pending' then t.now end,
         log = case when h.attempt is null then d.log
                    when jsonb_array_length(d.log) < 20 then d.log else d.log - 0 end
               || case when h.attempt is null then '[]' else jsonb_build_array(
                    jsonb_build_object('at', wire_time(
                      t.now - (h.attempt->'latency_ms')::float8 * interval '1 millisecond'))
                    || h.attempt) end
    from t, ended h
   where d.project_id = h.project_id and d.endpoint_id = h.endpoint_id
     and d.event_id = h.event_id and d.project_id = any($2::uuid[])
     and d.endpoint_id = any($3::uuid[]) and d.event_id = any($4::uuid[])
),
finished as (
  delete from webhook_queue q using ended h
   where q.project_id = h.project_id and q.event_id = h.event_id
     and q.endpoint_id = h.endpoint_id and h.status <> 'pending'
     and q.project_id = any($2::uuid[]) and q.event_id = any($4::uuid[])
),
again as (
  update webhook_queue q
     set holder = null, attempts = h.number, due_at = t.now + h.retry_ms * interval '1 millisecond'
    from t, ended h
   where q.project_id = h.project_id and q.event_id = h.event_id
     and q.endpoint_id = h.endpoint_id and h.status = 'pending'
     and q.project_id = any($2::uuid[]) and q.event_id = any($4::uuid[])
)
select endpoint_id as "endpointId", event_id as "eventId",
       case status when 'pending' then 'retried' else status end as settled
  from ended`;

const UNAVAILABLE_PAUSE_MS = 500;
/** An approximate size: the outcome and up to 4 KB of response. */
const OUTCOME_BYTES = 6_000;

/** Outcomes settled together lead to joint claims: both statements then have more rows per fixed cost. */
const SETTLE_PACE_MS = 10;

export type WebhookSettleOptions = {
  /** The lease that outcomes are written under; a change fences them. */
  holder: () => string | null;
  /** Called with the result of a kept outcome. */
  onSettled: (settled: SettledWebhook) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

export class WebhookSettleStore {
  readonly #commits: GroupCommit<WebhookOutcome, SettledWebhook | 'kept'>;
  readonly #unsettled: Unsettled<WebhookOutcome, SettledWebhook>;

  constructor(db: Queryable, { holder, onSettled, log, world }: WebhookSettleOptions) {
    this.#unsettled = new Unsettled({
      write: (batch, extent) => {
        const shortened = batch.map((outcome) => shorter(outcome, extent));
        return whenAvailable(() => commit(db, shortened, holder), {
          pauseMs: UNAVAILABLE_PAUSE_MS,
        });
      },
      describe: ({ endpointId, eventId, verdict }) => ({
        endpoint_id: endpointId,
        event_id: eventId,
        verdict,
      }),
      lockOf: ({ endpointId }) => endpointId,
      onSettled: (_, settled) => onSettled(settled),
      log,
      world,
    });
    this.#commits = new GroupCommit({
      commit: (batch) => this.#unsettled.settle(batch),
      sizeBytes: () => OUTCOME_BYTES,
      mayTryOneByOne: () => false,
      paceMs: SETTLE_PACE_MS,
    });
  }

  /**
   * Writes one outcome, and waits while the database is unavailable: repeating is safe, since it is
   * fenced. `kept`: the database refuses it, and it is written later.
   */
  settle(outcome: WebhookOutcome): Promise<SettledWebhook | 'kept'> {
    return this.#commits.add(outcome);
  }

  /** Outcomes are refused and kept: nothing should be posted whose outcome would have to be written. */
  get isBlocked(): boolean {
    return this.#unsettled.isBlocked;
  }

  /** Kept outcomes: this worker holds their deliveries although none is in progress. */
  kept(): Iterable<WebhookOutcome> {
    return this.#unsettled.items();
  }

  get keptCount(): number {
    return this.#unsettled.size;
  }

  /** Retries kept outcomes for up to `withinMs` and logs those that are left. */
  stop(withinMs: number): Promise<void> {
    return this.#unsettled.stop(withinMs);
  }
}

/** Without the response of the receiver; `bare` also without the attempt. */
function shorter(outcome: WebhookOutcome, extent: Extent): WebhookOutcome {
  if (extent === 'all' || outcome.attempt === null) return outcome;
  const attempt = { ...outcome.attempt, answer: null, error: null };
  return { ...outcome, attempt: extent === 'bare' ? null : attempt };
}

async function commit(
  db: Queryable,
  batch: readonly WebhookOutcome[],
  holder: () => string | null,
): Promise<SettledWebhook[]> {
  if (batch.every((outcome) => outcome.holder !== holder())) return batch.map(() => 'fenced');
  type Row = { endpointId: string; eventId: string; settled: SettledWebhook };
  failpoint('webhook_before_commit');
  const rows = await db.query<Row>({ name: 'webhooks_settle', text: SETTLE }, [
    JSON.stringify(batch.map(toInput)),
    [...new Set(batch.map((outcome) => outcome.projectId))],
    [...new Set(batch.map((outcome) => outcome.endpointId))],
    batch.map((outcome) => outcome.eventId),
  ]);
  failpoint('webhook_after_commit');
  const settled = new Map(rows.map((row) => [`${row.endpointId} ${row.eventId}`, row.settled]));
  return batch.map((one) => settled.get(`${one.endpointId} ${one.eventId}`) ?? 'fenced');
}

function toInput(outcome: WebhookOutcome): object {
  return {
    project_id: outcome.projectId,
    endpoint_id: outcome.endpointId,
    event_id: outcome.eventId,
    claim: outcome.claim,
    holder: outcome.holder,
    verdict: outcome.verdict,
    retry_ms: outcome.retryMs,
    rest_ms: outcome.restMs,
    attempt: outcome.attempt,
  };
}
