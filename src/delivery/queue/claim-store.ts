/**
 * Claims due recipients of the queue table. Claims skip locked rows and never wait for each other.
 *
 * Claims are fair at a cost that does not depend on the depth. `claimOldest` reads the oldest due rows, and claims
 * all of them if there are fewer than `readMax`. Otherwise there is a backlog. `findQueues` then walks over projects
 * and providers from where the last walk ended, one index probe each. delivery/queue/claims.ts decides on shares, and
 * `claimQueues` claims the oldest mail of each tenant queue.
 */
import type { Environment } from '../../core/scope.ts';
import type { Address } from '../../mail/address.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import { addressKeySql } from '../../database/address-keys.ts';
import type { Queryable } from '../../database/database.ts';
import { IS_FREE } from './queue-store.ts';

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
  /** Approximate bytes of the stored message, known before it is loaded. */
  sizeBytes: number;
  remainingMs: number;
  isSuppressed: boolean;
  isDomainDeleted: boolean;
  /** True when the domain lost its verification after the email was accepted. */
  isDomainUnverified: boolean;
  /** True when the sending domain is paused and no operator has released the email. */
  isPaused: boolean;
};

/** Claims the locked rows `due (project_id, email_id, position)`, and returns the columns that delivery needs. */
const CLAIM_AND_READ = `
claimed as (
  update queue q set holder = $1::uuid, claim = q.claim + 1
    from due
   where q.project_id = due.project_id and q.email_id = due.email_id and q.position = due.position
  returning q.*
),
taken as materialized (
  select c.project_id as "projectId", c.environment, c.email_id as "emailId", c.position, c.claim,
         c.attempts, c.destination, c.provider, c.due_at as "dueAt", r.address,
         coalesce(m.bytes, 0) as "sizeBytes",
         extract(epoch from e.expires_at - app_now())::float8 * 1000 as "remainingMs",
         exists (select from suppressions s
                  where s.project_id = c.project_id and s.environment = c.environment
                    and s.address_key = ${addressKeySql('r')}
                    and ${holdsBack('app_now()')}) as "isSuppressed",
         d.deleted_at is not null as "isDomainDeleted", d.status <> 'verified' as "isDomainUnverified",
         d.paused_at is not null and not c.passes_pause as "isPaused"
    from claimed c
   cross join lateral (
      select r.address, r.address_key from recipients r
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
      -- octet_length: the size in memory, not the compressed size on disk
      select coalesce(octet_length(k.html), octet_length(k.large_html), 0)
               + coalesce(octet_length(k.body_text), 0)
               + coalesce(pg_column_size(k.attachments), 0) + coalesce(octet_length(k.raw), 0)
               as bytes
        from contents k
       where k.project_id = c.project_id and k.email_id = c.email_id limit 1) m on true
)`;

/**
 * For two minutes after it is due, only the node of its last attempt may claim a row, while that node lives and its
 * uplink is up. A server that greylists accepts a retry only from the address that it has seen.
 */
const OTHER_NODES = `
others as materialized (
  select coalesce(array_agg(n.instance), '{}') as instances from nodes n
   where n.instance is distinct from (select w.instance from nodes w where w.id = $1::uuid)
     and not n.uplink_down
)`;
const MAY_CLAIM = `
(q.last_instance is null or q.last_instance <> all ((select instances from others)::uuid[])
  or q.due_at <= app_now() - interval '2 minutes')`;

/**
 * Starts at a low-water mark. With an old snapshot open (a backup), dead entries at the low end of the index cannot
 * be removed, and walking over them made a claim 14 times slower. Found rows are locked by key; rows that another
 * worker claims are skipped.
 */
const CLAIM_OLDEST = `
with ${OTHER_NODES},
seen as materialized (
  select q.email_id, q.position, q.project_id, q.provider, q.due_at
    from queue q
   where q.holder is null and q.claim >= 0
     and q.due_at >= $3::timestamptz and q.due_at <= app_now() and ${MAY_CLAIM}
   order by q.due_at
   limit $4
),
due as materialized (
  select free.project_id, free.email_id, free.position
    from seen s
   cross join lateral (
      select q.project_id, q.email_id, q.position from queue q
       where q.project_id = s.project_id and q.email_id = s.email_id and q.position = s.position
         and ${IS_FREE} and q.due_at <= app_now()
         for update skip locked) free
   where (select count(*) from seen) < $4
     and s.project_id <> all($5::uuid[]) and s.project_id || ' ' || s.provider <> all($6::text[])
   limit $2
),${CLAIM_AND_READ}
select seen.count as seen, extract(epoch from app_now())::float8 * 1000 as "nowMs", t.*
  from (select count(*)::int as count from seen) seen
  left join taken t on true
 order by t."dueAt"`;

/**
 * Claims up to `max` of the oldest due recipients for `leaseId`. If `readMax` or more are due, it claims none, and the
 * caller needs `findQueues` for fairness.
 * @param from rows due before this are not read; `new Date(0)` reads all
 * @param fullProjects,fullQueues projects and tenant queues with enough in memory; queues in the form of
 * `tenantQueueKey`
 * @returns the claimed recipients, oldest first, the number of due recipients that were read, and the database's time
 */
export async function claimOldest(
  db: Queryable,
  options: {
    leaseId: string;
    max: number;
    readMax: number;
    from: Date;
    fullProjects: readonly string[];
    fullQueues: readonly string[];
  },
): Promise<{ claimed: ClaimedRecipient[]; seen: number; nowMs: number }> {
  type Row = Partial<ClaimedRecipient> & { seen: number; nowMs: number };
  const rows = await db.query<Row>({ name: 'claim_oldest', text: CLAIM_OLDEST }, [
    options.leaseId,
    options.max,
    options.from,
    options.readMax,
    options.fullProjects,
    options.fullQueues,
  ]);
  const claimed = rows.filter((row): row is ClaimedRecipient & Row => !!row.emailId);
  const { seen, nowMs } = rows[0]!;
  return { claimed, seen, nowMs };
}

export function tenantQueueKey(projectId: string, provider: string): string {
  return `${projectId} ${provider}`;
}

/**
 * Each step of the recursion is one index probe. It finds the first entry of the next project, and then for each
 * project the first entry of the next provider, which is the provider's oldest. The statement also returns the
 * providers of the oldest rows, which the walk would find late among 50,000 providers that are not due.
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
       l.number is not null and l.number = quota.providers as "isLast", false as "isOldest",
       extract(epoch from t.now)::float8 * 1000 as "nowMs"
  from t, quota, project p left join providers l on l.project_id = p.id
union all
select distinct o.project_id, o.provider, true, false, true,
       extract(epoch from t.now)::float8 * 1000
  from t, oldest o`;

/** A tenant queue. `provider` null: the walk has passed the last provider of this project. */
export type FoundQueue = {
  projectId: string;
  provider: string | null;
  isDue: boolean;
  /** True when the walk stopped here, although there may be more providers. */
  isLast: boolean;
  /** True when it is not part of the walk, but has one of the oldest due rows. */
  isOldest: boolean;
  nowMs: number;
};

/**
 * Returns the next tenant queues after the cursors.
 * @param walk.project projects after this one
 * @param walk.projects,walk.probes limits on projects, and approximately on providers in total
 * @param walk.cursors last provider of each project
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
with ${OTHER_NODES},
due as materialized (
  select free.project_id, free.email_id, free.position
    from unnest($2::uuid[], $3::text[], $4::int[]) as wanted(project_id, provider, max)
   cross join lateral (
      select q.project_id, q.email_id, q.position from queue q
       where q.holder is null and q.project_id = wanted.project_id and q.provider = wanted.provider
         and q.due_at >= $5::timestamptz and q.due_at <= app_now() and ${MAY_CLAIM}
       order by q.due_at
       limit wanted.max
         for update skip locked) free
),${CLAIM_AND_READ}
select * from taken order by "dueAt"`;

export function claimQueues(
  db: Queryable,
  options: {
    leaseId: string;
    queues: readonly { projectId: string; provider: string; max: number }[];
    from: Date;
  },
): Promise<ClaimedRecipient[]> {
  const { leaseId, queues, from } = options;
  return db.query<ClaimedRecipient>({ name: 'claim_queues', text: CLAIM_QUEUES }, [
    leaseId,
    queues.map((queue) => queue.projectId),
    queues.map((queue) => queue.provider),
    queues.map((queue) => queue.max),
    from,
  ]);
}
