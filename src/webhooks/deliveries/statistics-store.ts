/**
 * Statistics of an endpoint over a period: deliveries by interval, response times, and failures grouped by response.
 * One statement reads at most SCAN_MAX of the newest deliveries of the period. While an endpoint fails, it attempts
 * the oldest pending deliveries only, which may be older than these, so they are read as well.
 */
import type { Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { firstUuidAt } from '../../database/ids.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';
import { ID_MARGIN_MS } from '../delivery-store.ts';

export type StatisticsRange = { since: Date; until: Date; intervals: number };

export type DeliveryInterval = {
  /** Position in the period, from 0. */
  index: number;
  delivered: number;
  /** Failed deliveries, and pending ones whose last attempt failed. */
  failed: number;
  /** Not attempted yet. */
  waiting: number;
};

/** Failures with the same status and the same text, apart from numbers in it. */
export type FailureGroup = {
  status: number | null;
  answer: string | null;
  error: string | null;
  deliveries: number;
  attempts: number;
  firstAt: string;
  lastAt: string;
  /** The newest of these deliveries. */
  deliveryId: string;
};

export type DeliveryStatistics = {
  intervals: DeliveryInterval[];
  /** 95th percentile of the last response times; null without a response. */
  latencyP95Ms: number | null;
  /** Queued now, whatever the period; counted up to PENDING_MAX + 1. */
  pending: number;
  nextAttemptAt: Date | null;
  failures: FailureGroup[];
  /** True when the period has more deliveries than were read. */
  isPartial: boolean;
};

export const SCAN_MAX = 20_000;
export const PENDING_MAX = 10_000;
const OLDEST_MAX = 2_000;
const GROUPS_MAX = 20;
const ANSWER_CHARACTERS = 200;

const { sql: P, valuesOf } = namedParameters([
  'projectId',
  'environment',
  'endpointId',
  'firstId',
  'lastId',
  'since',
  'until',
  'intervals',
]);

/** Columns of a delivery. The response is read only of failures, so that a period fits in memory. */
const FACTS = `
         delivery.event_id, delivery.status, delivery.attempts, delivery.created_at,
         (delivery.log -> -1 ->> 'status')::int as code,
         (delivery.log -> -1 ->> 'latency_ms')::float8 as latency_ms,
         delivery.log -> 0 ->> 'at' as first_at, delivery.log -> -1 ->> 'at' as last_at,
         delivery.log -> -1 ->> 'error' as error,
         case when delivery.status <> 'delivered'
              then left(delivery.log -> -1 ->> 'answer', ${ANSWER_CHARACTERS}) end as answer`;

const READ = `
with period as materialized (
  select ${FACTS}
    from webhook_deliveries delivery
   where delivery.project_id = ${P.projectId} and delivery.environment = ${P.environment}
     and delivery.endpoint_id = ${P.endpointId}
     and delivery.event_id > ${P.firstId} and delivery.event_id < ${P.lastId}
     and delivery.created_at >= ${P.since} and delivery.created_at < ${P.until}
   order by delivery.event_id desc limit ${SCAN_MAX}
),
queued as materialized (
  select webhook_queue.event_id, webhook_queue.due_at from webhook_queue
   where webhook_queue.endpoint_id = ${P.endpointId} and webhook_queue.holder is null
   order by webhook_queue.due_at limit ${PENDING_MAX + 1}
),
oldest as materialized (
  select ${FACTS}
    from (select event_id from queued order by event_id limit ${OLDEST_MAX}) queued
   cross join lateral (
      select * from webhook_deliveries
       where webhook_deliveries.project_id = ${P.projectId}
         and webhook_deliveries.environment = ${P.environment}
         and webhook_deliveries.endpoint_id = ${P.endpointId}
         and webhook_deliveries.event_id = queued.event_id offset 0) delivery
),
intervals as (
  select least(floor(extract(epoch from period.created_at - ${P.since}) * ${P.intervals}::int
               / extract(epoch from ${P.until}::timestamptz - ${P.since})), ${P.intervals}::int - 1)::int as index,
         count(*) filter (where status = 'delivered')::int as delivered,
         count(*) filter (where status = 'failed' or (status = 'pending' and attempts > 0))::int as failed,
         count(*) filter (where status = 'pending' and attempts = 0)::int as waiting
    from period group by 1 order by 1
),
failed as (
  select * from period where status <> 'delivered' and last_at is not null
  union all
  select * from oldest
   where last_at is not null
     and not exists (select from period where period.event_id = oldest.event_id)
),
failures as (
  select code as status, error,
         (array_agg(answer order by last_at desc))[1] as answer,
         count(*)::int as deliveries, sum(attempts)::int as attempts,
         min(first_at) as "firstAt", max(last_at) as "lastAt",
         (array_agg(event_id order by last_at desc))[1] as "deliveryId"
    from failed
   group by code, error, regexp_replace(answer, '[0-9]+', '0', 'g')
   order by count(*) desc, max(last_at) desc limit ${GROUPS_MAX}
)
select coalesce((select json_agg(intervals) from intervals), '[]') as intervals,
       coalesce((select json_agg(failures) from failures), '[]') as failures,
       (select percentile_disc(0.95) within group (order by latency_ms)
          from period where code is not null) as "latencyP95Ms",
       (select count(*)::int from queued) as pending,
       (select greatest(min(queued.due_at), max(endpoint.blocked_until), app_now()) from queued, webhook_endpoints endpoint
         where endpoint.project_id = ${P.projectId} and endpoint.id = ${P.endpointId}) as "nextAttemptAt",
       (select count(*) = ${SCAN_MAX} from period) as "isPartial"`;

export async function readStatistics(
  db: Queryable,
  scope: Scope,
  { endpointId, since, until, intervals }: StatisticsRange & { endpointId: string },
): Promise<DeliveryStatistics> {
  const firstId = firstUuidAt(since.getTime() - ID_MARGIN_MS);
  const lastId = firstUuidAt(until.getTime() + ID_MARGIN_MS);
  const values = valuesOf({ ...scope, endpointId, firstId, lastId, since, until, intervals });
  const [row] = await db.query<DeliveryStatistics>(READ, values);
  return row!;
}
