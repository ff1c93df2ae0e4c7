/**
 * Reads the depth of the queue and the age of its oldest mail, for metrics. Exact up to about 100,000 recipients;
 * above that, an estimate from a sample of pages at the same cost.
 *
 * A recipient waits since its first due time: its acceptance or its scheduled time. Mail to a suspended provider and
 * released mail get later due times again and again, so the due time alone would hide how long they wait. A retry
 * after a reply does not count as waiting before its time.
 */
import type { Queryable } from '../../database/database.ts';

/** Pages that are read: 16 MB, about 100,000 rows, in a few milliseconds. */
const COUNTED_PAGES_MAX = 2_000;
const COUNTED_SHARE = `least(1, ${COUNTED_PAGES_MAX}::float8
                       / greatest(1, pg_relation_size('queue') / current_setting('block_size')::int))`;

// Uses no index, because with an old snapshot open an index scan would visit any number of dead entries. The time is
// read once: per row it took seconds for 100,000 rows. A claimed row was due once (claim > 0). An email's id begins
// with the time of its acceptance, so the smallest id is the oldest, and only that email is looked up.
const DEPTH = `
with clock as materialized (
  select app_now() as now,
         array(select providers.provider from providers
                where providers.state = 'suspended' and providers.until > app_now()) as suspended
),
rows as (
  select case when queue.provider = any($1::text[]) then queue.provider
              when queue.provider like 'relay %' then 'relay' else 'other' end as label,
         queue.holder, queue.held, queue.due_at, queue.attempts, queue.claim, queue.project_id,
         queue.environment, queue.email_id,
         queue.due_at <= (select now from clock) as is_due,
         queue.provider = any((select suspended from clock)::text[]) as is_suspended
    from queue tablesample system (100 * ${COUNTED_SHARE})
),
by_label as materialized (
  select label, count(*) / ${COUNTED_SHARE} as depth,
         count(*) filter (where held) / ${COUNTED_SHARE} as held,
         count(holder) / ${COUNTED_SHARE} as with_workers,
         count(*) filter (where holder is null and not held and is_due) / ${COUNTED_SHARE} as due,
         min(due_at) filter (where holder is null and not held and is_due) as first_due_at,
         min(email_id || ' ' || project_id || ' ' || environment collate "C")
           filter (where not held and claim > 0
                     and (is_suspended or attempts = 0 and holder is null)) as first_waiting
    from rows group by label
),
aged as (
  select by_label.*,
         extract(epoch from clock.now - least(by_label.first_due_at, emails.since))::float8 as oldest_s
    from by_label
   cross join clock
    left join lateral (
      select coalesce(emails.scheduled_at, emails.created_at) as since from emails
       where emails.project_id = split_part(by_label.first_waiting, ' ', 2)::uuid
         and emails.environment = split_part(by_label.first_waiting, ' ', 3)
         and emails.id = split_part(by_label.first_waiting, ' ', 1)::uuid
       limit 1) emails on true
)
select label as provider, round(depth)::int as depth, round(held)::int as held,
       round(with_workers)::int as "withWorkers", round(due)::int as due,
       greatest(0, coalesce(oldest_s, 0)) as "oldestS"
  from aged order by label`;

export type ProviderDepth = {
  provider: string;
  depth: number;
  /** Parts of `depth`: in the memory of workers, on hold, and due but not claimed. The rest is not due yet. */
  withWorkers: number;
  held: number;
  due: number;
  oldestS: number;
};

/** Returns the depth of the listed providers, of relays, and of all others together. */
export function readQueueDepth(
  db: Queryable,
  providers: readonly string[],
): Promise<ProviderDepth[]> {
  return db.query<ProviderDepth>(DEPTH, [providers]);
}
