/** What waits in the queue, by provider, for people: one pass over the open work, not for every day. */
import type { Queryable } from './postgres/database.ts';

export type ProviderInQueue = {
  provider: string;
  projects: number;
  /** Recipients that have not ended; of these `withWorkers` are held by a worker at present. */
  depth: number;
  withWorkers: number;
  due: number;
  held: number;
  /** How long the oldest that is due has been waiting. */
  oldestS: number | null;
  nextDueAt: Date | null;
};

// The time is asked once: for each of a million rows it would take half a minute.
const BY_PROVIDER = `
with t as materialized (select app_now() as now),
by_project as (
  select q.provider, q.project_id, count(*) as depth, count(q.holder) as with_workers,
         count(*) filter (where q.held) as held,
         count(*) filter (where q.holder is null and q.due_at <= (select now from t)) as due,
         min(q.due_at) filter (where q.holder is null and not q.held) as first_due
    from queue q
   where $1::uuid is null or q.project_id = $1
   group by q.provider, q.project_id
)
select provider, count(*)::int as projects, sum(depth)::int as depth,
       sum(with_workers)::int as "withWorkers", sum(due)::int as due, sum(held)::int as held,
       extract(epoch from (select now from t)
         - min(first_due) filter (where first_due <= (select now from t)))::float8 as "oldestS",
       min(first_due) as "nextDueAt", count(*) over ()::int as providers
  from by_project
 group by provider
 order by sum(depth) desc, provider
 limit $2`;

/** The deepest providers first, and how many there are in all. @param projectId null: of all projects */
export async function providersInQueue(
  db: Queryable,
  options: { projectId: string | null; limit: number },
): Promise<{ providers: ProviderInQueue[]; total: number }> {
  const rows = await db.query<ProviderInQueue & { providers: number }>(BY_PROVIDER, [
    options.projectId,
    options.limit,
  ]);
  return { providers: rows, total: rows[0]?.providers ?? 0 };
}
