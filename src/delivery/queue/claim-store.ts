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
  update queue set holder = $1::uuid, claim = queue.claim + 1
    from due
   where queue.project_id = due.project_id and queue.email_id = due.email_id and queue.position = due.position
  returning queue.*
),
taken as materialized (
  select claimed.project_id as "projectId", claimed.environment, claimed.email_id as "emailId",
         claimed.position, claimed.claim,
         claimed.attempts, claimed.destination, claimed.provider, claimed.due_at as "dueAt",
         recipients.address, coalesce(size.bytes, 0) as "sizeBytes",
         extract(epoch from emails.expires_at - app_now())::float8 * 1000 as "remainingMs",
         exists (select from suppressions suppression
                  where suppression.project_id = claimed.project_id
                    and suppression.environment = claimed.environment
                    and suppression.address_key = ${addressKeySql('recipients')}
                    and ${holdsBack('app_now()')}) as "isSuppressed",
         domains.deleted_at is not null as "isDomainDeleted",
         domains.status <> 'verified' as "isDomainUnverified",
         domains.paused_at is not null and not claimed.passes_pause as "isPaused"
    from claimed
   cross join lateral (
      select recipients.address, recipients.address_key from recipients
       where recipients.project_id = claimed.project_id and recipients.email_id = claimed.email_id
         and recipients.position = claimed.position
       limit 1) recipients
   cross join lateral (
      select emails.expires_at, emails.domain_id from emails
       where emails.project_id = claimed.project_id and emails.environment = claimed.environment
         and emails.id = claimed.email_id
       limit 1) emails
   cross join lateral (
      select domains.deleted_at, domains.paused_at, domains.status from domains
       where domains.project_id = claimed.project_id and domains.id = emails.domain_id limit 1) domains
    left join lateral (
      -- octet_length: the size in memory, not the compressed size on disk
      select coalesce(octet_length(contents.html), octet_length(contents.large_html), 0)
               + coalesce(octet_length(contents.body_text), 0)
               + coalesce(pg_column_size(contents.attachments), 0) + coalesce(octet_length(contents.raw), 0)
               as bytes
        from contents
       where contents.project_id = claimed.project_id
         and contents.email_id = claimed.email_id limit 1) size on true
)`;

/**
 * For two minutes after it is due, only the node of its last attempt may claim a row, while that node lives and its
 * uplink is up. A server that greylists accepts a retry only from the address that it has seen.
 */
const OTHER_NODES = `
others as materialized (
  select coalesce(array_agg(nodes.instance), '{}') as instances from nodes
   where nodes.instance is distinct from (
           select own_node.instance from nodes own_node where own_node.id = $1::uuid)
     and not nodes.uplink_down
)`;
const MAY_CLAIM = `
(queue.last_instance is null or queue.last_instance <> all ((select instances from others)::uuid[])
  or queue.due_at <= app_now() - interval '2 minutes')`;

/**
 * Starts at a low-water mark. With an old snapshot open (a backup), dead entries at the low end of the index cannot
 * be removed, and walking over them made a claim 14 times slower. Found rows are locked by key; rows that another
 * worker claims are skipped.
 */
const CLAIM_OLDEST = `
with ${OTHER_NODES},
seen as materialized (
  select queue.email_id, queue.position, queue.project_id, queue.provider, queue.due_at
    from queue
   where queue.holder is null and queue.claim >= 0
     and queue.due_at >= $3::timestamptz and queue.due_at <= app_now() and ${MAY_CLAIM}
   order by queue.due_at
   limit $4
),
due as materialized (
  select free.project_id, free.email_id, free.position
    from seen
   cross join lateral (
      select queue.project_id, queue.email_id, queue.position from queue
       where queue.project_id = seen.project_id and queue.email_id = seen.email_id
         and queue.position = seen.position
         and ${IS_FREE} and queue.due_at <= app_now()
         for update skip locked) free
   where (select count(*) from seen) < $4
     and seen.project_id <> all($5::uuid[]) and seen.project_id || ' ' || seen.provider <> all($6::text[])
   limit $2
),${CLAIM_AND_READ}
select seen.count as seen, extract(epoch from app_now())::float8 * 1000 as "nowMs", taken.*
  from (select count(*)::int as count from seen) seen
  left join taken on true
 order by taken."dueAt"`;

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
with recursive clock as materialized (select app_now() as now),
projects(id, number) as (
  (select queue.project_id, 1 from queue
    where queue.holder is null and queue.project_id > $1::uuid
    order by queue.project_id, queue.provider, queue.due_at limit 1)
  union all
  select next.project_id, project.number + 1
    from projects project
   cross join lateral (
      select queue.project_id from queue
       where queue.holder is null and queue.project_id > project.id
       order by queue.project_id, queue.provider, queue.due_at limit 1) next
   where project.number < $2::int
),
project as materialized (
  select project.id,
         coalesce((select cursors.provider from unnest($4::uuid[], $5::text[]) as cursors(project_id, provider)
                          where cursors.project_id = project.id limit 1), '') as cursor
    from projects project
),
quota as materialized (select greatest(4, $3::int / greatest(1, count(*))) as providers from project),
providers(project_id, provider, due_at, number) as (
  select project.id, first.provider, first.due_at, 1
    from project
   cross join lateral (
      select queue.provider, queue.due_at from queue
       where queue.holder is null and queue.project_id = project.id and queue.provider > project.cursor
       order by queue.project_id, queue.provider, queue.due_at limit 1) first
  union all
  select providers.project_id, next.provider, next.due_at, providers.number + 1
    from providers
   cross join lateral (
      select queue.provider, queue.due_at from queue
       where queue.holder is null and queue.project_id = providers.project_id
         and queue.provider > providers.provider
       order by queue.project_id, queue.provider, queue.due_at limit 1) next
   where providers.number < (select providers from quota)
),
oldest as materialized (
  select queue.project_id, queue.provider from queue
   where queue.holder is null and queue.claim >= 0
     and queue.due_at >= $6::timestamptz and queue.due_at <= app_now()
   order by queue.due_at limit $7
)
select project.id as "projectId", providers.provider,
       coalesce(providers.due_at <= clock.now, false) as "isDue",
       providers.number is not null and providers.number = quota.providers as "isLast", false as "isOldest",
       extract(epoch from clock.now)::float8 * 1000 as "nowMs"
  from clock, quota, project left join providers on providers.project_id = project.id
union all
select distinct oldest.project_id, oldest.provider, true, false, true,
       extract(epoch from clock.now)::float8 * 1000
  from clock, oldest`;

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
      select queue.project_id, queue.email_id, queue.position from queue
       where queue.holder is null and queue.project_id = wanted.project_id
         and queue.provider = wanted.provider
         and queue.due_at >= $5::timestamptz and queue.due_at <= app_now() and ${MAY_CLAIM}
       order by queue.due_at
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
