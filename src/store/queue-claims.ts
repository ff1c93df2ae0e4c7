/**
 * Claiming what is due, in fair turns, at a cost that does not depend on how much waits.
 *
 * Two ways. `claimOldest` looks at the oldest due rows: when there are fewer than it looks at, that
 * is all there is, nobody has to wait for anybody, and they are taken. Else there is a backlog, and
 * `findQueues` walks from project to project and from provider to provider, one index probe each, from where
 * the last walk ended; the caller (delivery/claims.ts) decides who gets how much, and `claimQueues`
 * takes the oldest of each. Claims never wait for one another (`skip locked`).
 */
import type { Environment } from '../core/scope.ts';
import type { Address } from '../mail/address.ts';
import type { Queryable } from './postgres/database.ts';

export type ClaimedRecipient = {
  projectId: string;
  environment: Environment;
  emailId: string;
  position: number;
  claim: number;
  attempts: number;
  destination: string;
  provider: string;
  address: Address;
  dueAt: Date;
  /** Of its message as it is stored, roughly: known before it is loaded. */
  sizeBytes: number;
  /** Milliseconds until it must have been delivered; negative when that time has passed. */
  remainingMs: number;
  /** The address was suppressed after the email was accepted. */
  suppressed: boolean;
  /** The sending domain was deleted after the email was accepted. */
  domainDeleted: boolean;
  /** Its records have been away for too long since the email was accepted. */
  domainUnverified: boolean;
  /** Its sending domain is paused, and nobody has released it. */
  isPaused: boolean;
};

/** From `due (email_id, position)`, locked, to what delivery needs. */
const TAKE = `
claimed as (
  update queue q set holder = $1::uuid, claim = q.claim + 1
    from due
   where q.email_id = due.email_id and q.position = due.position
  returning q.*
),
taken as materialized (
  select c.project_id as "projectId", c.environment, c.email_id as "emailId", c.position, c.claim,
         c.attempts, c.destination, c.provider, c.due_at as "dueAt", r.address,
         coalesce(m.bytes, 0) as "sizeBytes",
         extract(epoch from e.expires_at - app_now())::float8 * 1000 as "remainingMs",
         exists (select from suppressions s
                  where s.project_id = c.project_id and s.environment = c.environment
                    and s.address_key = lower(r.address collate "C")
                    and (s.expires_at is null or s.expires_at > app_now())) as suppressed,
         d.deleted_at is not null as "domainDeleted", d.status <> 'verified' as "domainUnverified",
         d.paused_at is not null and not c.passes_pause as "isPaused"
    from claimed c
   cross join lateral (
      select r.address from recipients r
       where r.project_id = c.project_id and r.email_id = c.email_id and r.position = c.position
       limit 1) r
   cross join lateral (
      select e.expires_at, e.domain_id from emails e
       where e.project_id = c.project_id and e.environment = c.environment and e.id = c.email_id
       limit 1) e
   cross join lateral (
      select d.deleted_at, d.paused_at, d.status from domains d
       where d.project_id = c.project_id and d.id = e.domain_id limit 1) d
    left join lateral (
      select coalesce(pg_column_size(k.html), 0) + coalesce(pg_column_size(k.body_text), 0)
               + coalesce(pg_column_size(k.attachments), 0) + coalesce(pg_column_size(k.raw), 0)
               as bytes
        from contents k
       where k.project_id = c.project_id and k.email_id = c.email_id limit 1) m on true
)`;

/**
 * The search starts at a low-water mark: with an old snapshot open (a backup), the dead entries at
 * the low end of the index cannot be removed, and walking over them made a claim 14 times slower.
 * What was seen is locked by its key: another worker's claims are passed over, not waited for.
 */
const CLAIM_OLDEST = `
with seen as materialized (
  select q.email_id, q.position, q.project_id, q.provider, q.due_at
    from queue q
   where q.holder is null and q.claim >= 0
     and q.due_at >= $3::timestamptz and q.due_at <= app_now()
   order by q.due_at
   limit $4
),
due as materialized (
  select free.email_id, free.position
    from seen s
   cross join lateral (
      select q.email_id, q.position from queue q
       where q.email_id = s.email_id and q.position = s.position
         and q.holder is null and q.due_at <= app_now()
         for update skip locked) free
   where (select count(*) from seen) < $4
     and s.project_id <> all($5::uuid[]) and s.project_id || ' ' || s.provider <> all($6::text[])
   limit $2
),${TAKE}
select seen.count as seen, t.*
  from (select count(*)::int as count from seen) seen
  left join taken t on true
 order by t."dueAt"`;

/**
 * Takes up to `max` of the oldest due recipients for `holder`, unless there are `window` of them
 * or more: then nothing is taken, and it takes `findQueues` to be fair.
 * @param from due times before this are not looked at; `new Date(0)` looks at all
 * @param fullProjects,fullQueues who has enough in memory; queues as `tenantQueueKey` writes them
 * @returns oldest first, and how many are due as far as was looked
 */
export async function claimOldest(
  db: Queryable,
  options: {
    holder: string;
    max: number;
    window: number;
    from: Date;
    fullProjects: readonly string[];
    fullQueues: readonly string[];
  },
): Promise<{ claimed: ClaimedRecipient[]; seen: number }> {
  const rows = await db.query<Partial<ClaimedRecipient> & { seen: number }>(
    { name: 'claim_oldest', text: CLAIM_OLDEST },
    [
      options.holder,
      options.max,
      options.from,
      options.window,
      options.fullProjects,
      options.fullQueues,
    ],
  );
  const claimed = rows.filter((row): row is ClaimedRecipient & { seen: number } => !!row.emailId);
  return { claimed, seen: rows[0]?.seen ?? 0 };
}

/** A project's mail in one provider, as statements and memory name it. */
export function tenantQueueKey(projectId: string, provider: string): string {
  return `${projectId} ${provider}`;
}

/**
 * Each step of the recursion is one index probe: the first entry of the next project, then in all
 * projects side by side the first entry of the next provider, which is that provider's oldest. The providers of
 * the oldest rows of all come along: among 50 000 providers that are not due they are found at once.
 */
const FIND_QUEUES = `
with recursive t as materialized (select app_now() as now),
projects(id, number) as (
  (select q.project_id, 1 from queue q
    where q.holder is null and q.project_id > $1::uuid
    order by q.project_id, q.provider, q.due_at limit 1)
  union all
  select next.project_id, p.number + 1
    from projects p
   cross join lateral (
      select q.project_id from queue q
       where q.holder is null and q.project_id > p.id
       order by q.project_id, q.provider, q.due_at limit 1) next
   where p.number < $2::int
),
project as materialized (
  select p.id, coalesce((select c.provider from unnest($4::uuid[], $5::text[]) as c(project_id, provider)
                          where c.project_id = p.id limit 1), '') as cursor
    from projects p
),
quota as materialized (select greatest(4, $3::int / greatest(1, count(*))) as providers from project),
providers(project_id, provider, due_at, number) as (
  select p.id, first.provider, first.due_at, 1
    from project p
   cross join lateral (
      select q.provider, q.due_at from queue q
       where q.holder is null and q.project_id = p.id and q.provider > p.cursor
       order by q.project_id, q.provider, q.due_at limit 1) first
  union all
  select l.project_id, next.provider, next.due_at, l.number + 1
    from providers l
   cross join lateral (
      select q.provider, q.due_at from queue q
       where q.holder is null and q.project_id = l.project_id and q.provider > l.provider
       order by q.project_id, q.provider, q.due_at limit 1) next
   where l.number < (select providers from quota)
),
oldest as materialized (
  select q.project_id, q.provider from queue q
   where q.holder is null and q.claim >= 0
     and q.due_at >= $6::timestamptz and q.due_at <= app_now()
   order by q.due_at limit $7
)
select p.id as "projectId", l.provider, coalesce(l.due_at <= t.now, false) as "isDue",
       l.number is not null and l.number = quota.providers as "isLast", false as "isOldest"
  from t, quota, project p left join providers l on l.project_id = p.id
union all
select distinct o.project_id, o.provider, true, false, true from oldest o`;

/** A queue of the queue table. `provider` null: the walk has passed this project's last one. */
export type FoundQueue = {
  projectId: string;
  provider: string | null;
  isDue: boolean;
  /** The walk stopped here although there may be more providers. */
  isLast: boolean;
  /** Not of the walk: it has one of the oldest due rows of all. */
  isOldest: boolean;
};

/**
 * The next queues of the queue table, behind the cursors.
 * @param walk.project projects behind this one
 * @param walk.projects,walk.probes at most so many projects, and about so many providers together
 * @param walk.cursors providers behind these, by project
 */
export function findQueues(
  db: Queryable,
  walk: {
    project: string;
    projects: number;
    probes: number;
    cursors: ReadonlyMap<string, string>;
    from: Date;
    oldest: number;
  },
): Promise<FoundQueue[]> {
  return db.query<FoundQueue>({ name: 'find_queues', text: FIND_QUEUES }, [
    walk.project,
    walk.projects,
    walk.probes,
    [...walk.cursors.keys()],
    [...walk.cursors.values()],
    walk.from,
    walk.oldest,
  ]);
}

const CLAIM_QUEUES = `
with due as materialized (
  select free.email_id, free.position
    from unnest($2::uuid[], $3::text[], $4::int[]) as wanted(project_id, provider, max)
   cross join lateral (
      select q.email_id, q.position from queue q
       where q.holder is null and q.project_id = wanted.project_id and q.provider = wanted.provider
         and q.due_at >= $5::timestamptz and q.due_at <= app_now()
       order by q.due_at
       limit wanted.max
         for update skip locked) free
),${TAKE}
select * from taken order by "dueAt"`;

/** Takes the oldest due recipients of each queue for `holder`, up to `max` of each. */
export function claimQueues(
  db: Queryable,
  options: {
    holder: string;
    queues: readonly { projectId: string; provider: string; max: number }[];
    from: Date;
  },
): Promise<ClaimedRecipient[]> {
  const { holder, queues, from } = options;
  return db.query<ClaimedRecipient>({ name: 'claim_queues', text: CLAIM_QUEUES }, [
    holder,
    queues.map((queue) => queue.projectId),
    queues.map((queue) => queue.provider),
    queues.map((queue) => queue.max),
    from,
  ]);
}
