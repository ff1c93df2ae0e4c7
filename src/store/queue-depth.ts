/** The number of open recipients and the age of the oldest, for metrics. */
import type { Queryable } from './postgres/database.ts';

/** 16 MB, about 100,000 rows, which take some milliseconds. */
const COUNTED_PAGES_MAX = 2_000;
const COUNTED_SHARE = `least(1, ${COUNTED_PAGES_MAX}::float8
                       / greatest(1, pg_relation_size('queue') / current_setting('block_size')::int))`;

// No index: with an old snapshot open it would walk over any number of dead entries. The time is read
// once: per row it took seconds for 100,000 rows.
const DEPTH = `
with t as materialized (select app_now() as now),
by_provider as (
  select provider, count(*) / ${COUNTED_SHARE} as depth,
         extract(epoch from (select now from t) - min(due_at)
           filter (where holder is null and due_at <= (select now from t)))::float8 as oldest_s
    from queue tablesample system (100 * ${COUNTED_SHARE})
   group by provider
)
select provider, round(depth)::int as depth, coalesce(oldest_s, 0) as "oldestS",
       round(sum(depth) over ())::int as "depthInAll",
       coalesce(max(oldest_s) over (), 0) as "oldestInAllS"
  from by_provider
 order by depth desc
 limit $1`;

/** `oldestS`: for how long the oldest due recipient has been waiting; 0 when none is due. */
export type QueueDepth = {
  depth: number;
  oldestS: number;
  /** The deepest. */
  providers: { provider: string; depth: number; oldestS: number }[];
};

/**
 * The number of open recipients, in total and by provider, for metrics. Exact up to about 100,000
 * recipients; above that, an estimate from a sample of pages at the same cost.
 * @param providersMax maximum number of providers returned
 */
export async function queueDepth(db: Queryable, providersMax: number): Promise<QueueDepth> {
  const rows = await db.query<{
    provider: string;
    depth: number;
    oldestS: number;
    depthInAll: number;
    oldestInAllS: number;
  }>(DEPTH, [providersMax]);
  const providers = rows.map(({ provider, depth, oldestS }) => ({ provider, depth, oldestS }));
  return { depth: rows[0]?.depthInAll ?? 0, oldestS: rows[0]?.oldestInAllS ?? 0, providers };
}
