/**
 * Counts waiting mail for the API: by provider and by project, within the projects that the caller may see.
 *
 * The cost does not depend on the depth. Like the metrics (depth-store.ts) a report reads 16 MB of the queue: exact
 * up to about 100,000 recipients, above that an estimate from a sample of pages. After a backlog the table keeps its
 * pages, so up to 160 MB are read while it has few rows. A sample misses small senders. The caller's project is
 * therefore also counted by its index, up to 200 recipients for each provider.
 */
import type { Environment, Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';

export type QueueCounts = {
  waiting: number;
  withWorkers: number;
  due: number;
  held: number;
  /** Earliest due time of a recipient that is not on hold, or null when there is none. */
  firstDueAt: Date | null;
};

export type ProviderCounts = QueueCounts & { provider: string };
export type ProjectCounts = QueueCounts & { projectId: string; environment: Environment };

export type QueueReport = {
  now: Date;
  total: QueueCounts;
  isEstimate: boolean;
  /** Large providers and the deepest others, deepest first, at most `limit`. `providerCount` counts all. */
  providers: ProviderCounts[];
  providerCount: number;
  projects: ProjectCounts[];
};

export type QueueScope = {
  projectId: string | null;
  environment: Environment | null;
};

export type QueueQuery = {
  projectIds: readonly string[];
  environment: Environment | null;
  /** Part of these projects that is shown by provider. */
  within: QueueScope;
  provider: string | null;
  limit: number;
};

const COUNTED_PAGES_MAX = 2_000;
const SPARSE_PAGES_MAX = 20_000;
const SPARSE_ROWS_MAX = 100_000;
/** Limit on the recipients of one provider that the index counts. */
const INDEX_COUNT_MAX = 200;
/** Rows that are read from each end of a tenant queue for the last replies. */
const REPLY_CANDIDATES = 100;
/** Rows that are read of a tenant queue to find the paused domains of its mail on hold. */
const ON_HOLD_CANDIDATES = 20;
const PAUSED_DOMAINS_MAX = 10;

/** True for single hosts, not for large providers or providers in the operator's file (net/providers.ts). */
const IS_SINGLE_HOST = `(provider ~ '[.:]')`;

const ROWS = `(select pg_class.reltuples from pg_class where pg_class.oid = 'queue'::regclass)`;
const SHARE = `
  least(1, case when ${ROWS} between 0 and ${SPARSE_ROWS_MAX} then ${SPARSE_PAGES_MAX}
                else ${COUNTED_PAGES_MAX} end::float8
           / greatest(1, pg_relation_size('queue') / current_setting('block_size')::int))`;

const SUMS = `
       round(sum(waiting))::int as waiting, round(sum(with_workers))::int as "withWorkers",
       round(sum(due))::int as due, round(sum(held))::int as held, min(first_due) as "firstDueAt"`;

// The time is read once: per row it would take seconds. Projects are filtered after grouping: with the filter on
// rows, the planner expects few of them and sorts 100,000 on disk.
const REPORT = `
with clock as materialized (select app_now() as now, ${SHARE} as share),
all_queues as materialized (
  select queue.project_id, queue.environment, queue.provider, count(*) / (select share from clock) as waiting,
         count(queue.holder) / (select share from clock) as with_workers,
         count(*) filter (where queue.held) / (select share from clock) as held,
         count(*) filter (where queue.holder is null and not queue.held
                            and queue.due_at <= (select now from clock)) / (select share from clock) as due,
         min(queue.due_at) filter (where queue.holder is null and not queue.held) as first_due
    from queue tablesample system (100 * ${SHARE})
   group by queue.project_id, queue.environment, queue.provider
),
by_queue as (
  select * from all_queues
   where project_id = any($1::uuid[]) and ($2::text is null or environment = $2)
),
within as (
  select * from by_queue
   where ($3::uuid is null or project_id = $3) and ($4::text is null or environment = $4)
     and ($5::text is null or provider = $5)
),
shown as (
  (select 'provider' as kind, provider, null::uuid as "projectId", null::text as environment,
          count(*) over ()::int as groups, ${SUMS}
     from within group by provider order by ${IS_SINGLE_HOST}, sum(waiting) desc, provider limit $6)
  union all
  (select 'project', null, project_id, environment, count(*) over ()::int, ${SUMS}
     from by_queue group by project_id, environment order by sum(waiting) desc, project_id limit $6)
  union all
  select 'total', null, null, null, 1, ${SUMS} from within
)
select clock.now, clock.share < 1 as "isEstimate", shown.*
  from clock cross join shown`;

type Row = Omit<QueueCounts, 'waiting'> & {
  now: Date;
  isEstimate: boolean;
  kind: 'provider' | 'project' | 'total';
  provider: string;
  projectId: string;
  environment: Environment;
  groups: number;
  waiting: number | null;
};

export async function readQueue(db: Queryable, query: QueueQuery): Promise<QueueReport> {
  const { projectIds, environment, within, provider, limit } = query;
  const values = [projectIds, environment, within.projectId, within.environment, provider, limit];
  const rows = await db.query<Row>(REPORT, values);
  const rowsOf = (kind: Row['kind']): Row[] => rows.filter((row) => row.kind === kind);
  const { now, isEstimate } = rows[0]!;
  const sampled = rowsOf('provider').map((row) => ({ ...countsOf(row), provider: row.provider }));
  const { projectId } = within;
  const isSmall = isEstimate && projectId !== null;
  const counted = isSmall ? await countByIndex(db, { ...within, projectId, provider, limit }) : [];
  const providers = mergeCounts(sampled, counted).slice(0, limit);
  return {
    now,
    isEstimate,
    total: isSmall
      ? totalCounts(countsOf(rowsOf('total')[0]!), providers)
      : countsOf(rowsOf('total')[0]!),
    providers,
    providerCount: Math.max(rowsOf('provider')[0]?.groups ?? 0, providers.length),
    projects: rowsOf('project').map((row) => ({
      ...countsOf(row),
      projectId: row.projectId,
      environment: row.environment,
    })),
  };
}

function countsOf({ waiting, withWorkers, due, held, firstDueAt }: Row): QueueCounts {
  if (waiting === null) return { waiting: 0, withWorkers: 0, due: 0, held: 0, firstDueAt: null };
  return { waiting, withWorkers, due, held, firstDueAt };
}

// Finding the next provider takes one index probe, however much mail waits for the one before it.
const COUNT_BY_INDEX = `
with recursive clock as materialized (select app_now() as now),
names as (
  (select queue.provider from queue
    where queue.project_id = $1 and queue.holder is null and queue.provider >= coalesce($3::text, '')
    order by queue.provider limit 1)
  union all
  select (select queue.provider from queue
           where queue.project_id = $1 and queue.holder is null and queue.provider > names.provider
           order by queue.provider limit 1)
    from names where names.provider is not null and $3::text is null
)
select names.provider, counted.*
  from (select provider from names
         where provider is not null and ($3::text is null or provider = $3) limit $4) names
 cross join lateral (
    select count(*)::int as waiting, 0 as "withWorkers", count(*) filter (where held)::int as held,
           count(*) filter (where not held and due_at <= (select now from clock))::int as due,
           min(due_at) filter (where not held) as "firstDueAt"
      from (select queue.held, queue.due_at, queue.environment from queue
             where queue.project_id = $1 and queue.provider = names.provider and queue.holder is null
             order by queue.due_at limit ${INDEX_COUNT_MAX}) one
     where $2::text is null or environment = $2) counted
 where counted.waiting > 0`;

/** Counts up to INDEX_COUNT_MAX recipients for each provider, without those that workers have claimed. */
export function countByIndex(
  db: Queryable,
  query: QueueScope & { provider: string | null; limit: number },
): Promise<ProviderCounts[]> {
  const { projectId, environment, provider, limit } = query;
  return db.query<ProviderCounts>(COUNT_BY_INDEX, [projectId, environment, provider, limit]);
}

/** Merges both counts. Below its limit the index is exact except for claimed rows; else the larger is closer. */
function mergeCounts(
  sampled: readonly ProviderCounts[],
  counted: readonly ProviderCounts[],
): ProviderCounts[] {
  const byProvider = new Map(sampled.map((counts) => [counts.provider, counts]));
  for (const exact of counted) {
    const { withWorkers = 0, waiting = 0 } = byProvider.get(exact.provider) ?? {};
    const isExact = exact.waiting < INDEX_COUNT_MAX;
    if (!isExact && waiting >= exact.waiting) continue;
    byProvider.set(exact.provider, { ...exact, withWorkers, waiting: exact.waiting + withWorkers });
  }
  return [...byProvider.values()].toSorted((one, other) => other.waiting - one.waiting);
}

function totalCounts(sampled: QueueCounts, providers: readonly ProviderCounts[]): QueueCounts {
  const sum = (measure: (counts: ProviderCounts) => number): number =>
    providers.reduce((total, one) => total + measure(one), 0);
  const dues = providers.flatMap(({ firstDueAt }) => firstDueAt ?? []);
  return {
    waiting: Math.max(
      sampled.waiting,
      sum(({ waiting }) => waiting),
    ),
    withWorkers: sampled.withWorkers,
    due: Math.max(
      sampled.due,
      sum(({ due }) => due),
    ),
    held: Math.max(
      sampled.held,
      sum(({ held }) => held),
    ),
    firstDueAt: dues.length === 0 ? null : dues.reduce((a, b) => (a < b ? a : b)),
  };
}

const MAIL = namedParameters(['projectIds', 'projectId', 'environment', 'providers']);

// Mail on hold is due when it expires, so it is at the end of the tenant queue. Without a paused domain no row of the
// queue is read.
const PAUSED_MAIL = `
with paused as materialized (
  select domains.project_id, domains.id, domains.name from domains
   where domains.project_id = any(${MAIL.sql.projectIds}::uuid[])
     and (${MAIL.sql.projectId}::uuid is null or domains.project_id = ${MAIL.sql.projectId})
     and (${MAIL.sql.environment}::text is null or domains.environment = ${MAIL.sql.environment})
     and domains.paused_at is not null and domains.deleted_at is null
   limit ${PAUSED_DOMAINS_MAX}
)
select providers.provider, count(*)::int as seen,
       count(paused.id)::int as paused,
       coalesce(array_agg(distinct paused.name) filter (where paused.id is not null), '{}') as domains
  from (select distinct paused.project_id from paused) projects
 cross join unnest(${MAIL.sql.providers}::text[]) providers(provider)
 cross join lateral (
    select queue.project_id, queue.environment, queue.email_id, queue.held from queue
     where queue.project_id = projects.project_id and queue.provider = providers.provider
       and queue.holder is null
     order by queue.due_at desc limit ${ON_HOLD_CANDIDATES}) waiting
 cross join lateral (
    select emails.domain_id from emails
     where emails.project_id = waiting.project_id and emails.environment = waiting.environment
       and emails.id = waiting.email_id
     limit 1) emails
  left join paused on paused.project_id = waiting.project_id and paused.id = emails.domain_id
 where waiting.held and (${MAIL.sql.environment}::text is null or waiting.environment = ${MAIL.sql.environment})
 group by providers.provider`;

/** Mail on hold for a provider in projects with a paused domain, as far as it was read. */
export type PausedMail = {
  provider: string;
  seen: number;
  /** Recipients among them whose sending domain is paused. */
  paused: number;
  domains: string[];
};

/** Reads up to ON_HOLD_CANDIDATES recipients for each provider and project. */
export async function readPausedMail(
  db: Queryable,
  { projectIds, environment, within }: Pick<QueueQuery, 'projectIds' | 'environment' | 'within'>,
  providers: readonly string[],
): Promise<PausedMail[]> {
  if (providers.length === 0) return [];
  const scope = { projectId: within.projectId, environment: within.environment ?? environment };
  return db.query<PausedMail>(PAUSED_MAIL, MAIL.valuesOf({ projectIds, providers, ...scope }));
}

/** The last reply of a mail server, or the reason why none was reached. */
export type LastReply = {
  at: Date;
  emailId: string;
  address: string;
  attempts: number;
  smtp: {
    code: number | null;
    enhanced_code: string | null;
    message: string;
    mx: string | null;
    ip: string | null;
  };
};

// Reads both ends of the tenant queue: the next retries, and the mail with the most failures.
const LAST_REPLIES = `
with waiting as materialized (
  (select queue.email_id, queue.position, queue.environment, queue.attempts from queue
    where queue.project_id = $1 and queue.provider = $3 and queue.holder is null
    order by queue.due_at limit ${REPLY_CANDIDATES})
  union
  (select queue.email_id, queue.position, queue.environment, queue.attempts from queue
    where queue.project_id = $1 and queue.provider = $3 and queue.holder is null
    order by queue.due_at desc limit ${REPLY_CANDIDATES})
)
select events.created_at as at, waiting.email_id as "emailId", recipients.address, recipients.attempts,
       recipients.smtp
  from waiting
 cross join lateral (
    select recipients.address, recipients.attempts, recipients.smtp from recipients
     where recipients.project_id = $1 and recipients.email_id = waiting.email_id
       and recipients.position = waiting.position
     limit 1) recipients
 cross join lateral (
    select events.created_at from events
     where events.project_id = $1 and events.subject_id = waiting.email_id
       and events.environment = waiting.environment
       and events.position = waiting.position and events.attempt is not null
     order by events.seq desc limit 1) events
 where waiting.attempts > 0 and waiting.environment = $2 and recipients.smtp is not null
 order by events.created_at desc
 limit $4`;

export function readLastReplies(
  db: Queryable,
  { projectId, environment }: Scope,
  { provider, limit }: { provider: string; limit: number },
): Promise<LastReply[]> {
  return db.query<LastReply>(LAST_REPLIES, [projectId, environment, provider, limit]);
}
