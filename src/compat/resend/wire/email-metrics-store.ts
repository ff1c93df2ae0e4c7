/**
 * Counts the events of the emails of a period. The cost follows the number of emails in the period, which is limited.
 * Nothing is counted in advance.
 */
import type { Scope } from '../../../core/scope.ts';
import type { Queryable } from '../../../database/database.ts';
import { firstUuidAt } from '../../../database/ids.ts';

export const METRIC_EMAILS_MAX = 10_000;

export const GRANULARITIES = ['hourly', 'daily', 'weekly', 'monthly'] as const;
export type Granularity = (typeof GRANULARITIES)[number];

export const DIMENSIONS = ['period', 'domain', 'email'] as const;
export type Dimension = (typeof DIMENSIONS)[number];

export type MetricsQuery = {
  since: Date;
  /** Exclusive. */
  until: Date;
  granularity: Granularity;
  dimensions: readonly Dimension[];
  domainIds: readonly string[] | null;
  emailIds: readonly string[] | null;
};

/** The number of events of one type in one group of emails. A dimension that the query omits is null. */
export type MetricCount = {
  /** Start of the period, in UTC. */
  period: Date | null;
  domainId: string | null;
  domainName: string | null;
  emailId: string | null;
  /** Event type, or `recipients` for the recipients of these emails. */
  type: string;
  events: number;
  recipients: number;
};

const COUNT = `
with email as materialized (
  select email.id, email.domain_id, email.created_at from emails email
   where email.project_id = $1 and email.environment = $2 and email.id >= $3 and email.id < $4
     and email.created_at >= $5 and email.created_at < $6
     and ($7::uuid[] is null or email.domain_id = any($7))
     and ($8::uuid[] is null or email.id = any($8))
   order by email.id limit ${METRIC_EMAILS_MAX + 1}
),
counted as materialized (
  select email.*, events.type, events.events, events.recipients
    from email cross join lateral (
      select type, count(*) as events, count(distinct position) as recipients from events
       where project_id = $1 and environment = $2 and subject_id = email.id and position is not null
       group by type
      union all
      select 'recipients', count(*), count(*) from recipients
       where project_id = $1 and email_id = email.id) events
),
grouped as (
  select case when 'period' = any($9::text[]) then date_trunc($10, created_at, 'UTC') end as period,
         case when 'domain' = any($9) then domain_id end as domain_id,
         case when 'email' = any($9) then id end as email_id, type,
         sum(events)::int as events, sum(recipients)::int as recipients
    from counted group by 1, 2, 3, 4
)
select grouped.period, grouped.domain_id as "domainId", domains.name as "domainName",
       grouped.email_id as "emailId",
       grouped.type, grouped.events, grouped.recipients, (select count(*) from email)::int as emails
  from grouped
  left join domains on domains.project_id = $1 and domains.id = grouped.domain_id
 order by grouped.period, domains.name, grouped.email_id`;

/** Ids use the worker's clock, created_at the database's. */
const CLOCK_SLACK_MS = 5 * 60_000;

const UNITS: Readonly<Record<Granularity, string>> = {
  hourly: 'hour',
  daily: 'day',
  weekly: 'week',
  monthly: 'month',
};

export async function countMetrics(
  db: Queryable,
  { projectId, environment }: Scope,
  query: MetricsQuery,
): Promise<MetricCount[] | null> {
  const { since, until, dimensions, granularity, domainIds, emailIds } = query;
  const first = firstUuidAt(since.getTime() - CLOCK_SLACK_MS);
  const last = firstUuidAt(until.getTime() + CLOCK_SLACK_MS);
  const rows = await db.query<MetricCount & { emails: number }>(COUNT, [
    projectId,
    environment,
    first,
    last,
    since,
    until,
    domainIds,
    emailIds,
    dimensions,
    UNITS[granularity],
  ]);
  return (rows[0]?.emails ?? 0) > METRIC_EMAILS_MAX ? null : rows;
}
