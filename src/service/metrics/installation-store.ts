/**
 * Figures of the whole installation for metrics: its database, domains and webhook endpoints. Each statement reads
 * small tables or the statistics of the server, so its cost depends neither on stored mail nor on the queue.
 */
import type { Queryable } from '../../database/database.ts';

/** With more domains than this, they are only counted by state. */
export const DOMAINS_NAMED_MAX = 200;

export type DatabaseFigures = {
  serverVersion: string;
  sizeBytes: number;
  connections: number;
  connectionsMax: number;
  /** Transactions since the oldest row version was frozen. The server stops at two billion. */
  frozenXidAge: number;
  /** Oldest transaction of this database that the role may see. */
  oldestTransactionS: number;
  /** Lag of the slowest standby; null when there is none, or when the role may not see it. */
  replicationLagS: number | null;
};

const DATABASE = `
select current_setting('server_version') as "serverVersion",
       pg_database_size(current_database()) as "sizeBytes",
       (select coalesce(sum(numbackends), 0)::int from pg_stat_database where datname is not null)
         as connections,
       current_setting('max_connections')::int as "connectionsMax",
       (select age(datfrozenxid) from pg_database where datname = current_database())
         as "frozenXidAge",
       (select coalesce(extract(epoch from clock_timestamp() - min(xact_start)), 0)::float8
          from pg_stat_activity where datname = current_database()) as "oldestTransactionS",
       (select extract(epoch from max(replay_lag))::float8 from pg_stat_replication)
         as "replicationLagS"`;

export async function databaseFigures(db: Queryable): Promise<DatabaseFigures> {
  const [row] = await db.query<DatabaseFigures>(DATABASE);
  return row!;
}

export type DomainFigures = {
  byStatus: { status: string; count: number }[];
  /** Live domains; empty when there are more than DOMAINS_NAMED_MAX. */
  named: { name: string; isVerified: boolean }[];
};

const DOMAIN_COUNTS = `
select status, count(*)::int as count from domains
 where deleted_at is null and environment = 'live' group by status`;

// When two projects have the same domain, the worse state counts.
const DOMAIN_NAMES = `
select name, bool_and(status = 'verified') as "isVerified" from domains
 where deleted_at is null and environment = 'live' group by name order by name limit $1`;

export async function domainFigures(db: Queryable): Promise<DomainFigures> {
  const byStatus = await db.query<DomainFigures['byStatus'][number]>(DOMAIN_COUNTS);
  const all = byStatus.reduce((sum, { count }) => sum + count, 0);
  if (all > DOMAINS_NAMED_MAX) return { byStatus, named: [] };
  const named = await db.query<DomainFigures['named'][number]>(DOMAIN_NAMES, [DOMAINS_NAMED_MAX]);
  return { byStatus, named };
}

export type WebhookFigures = {
  enabled: number;
  failing: number;
  disabled: number;
  waiting: number;
  oldestDueS: number;
};

/** 16 MB of the table. */
const SAMPLED_PAGES_MAX = 2_000;
const SHARE = `least(1, ${SAMPLED_PAGES_MAX}::float8
  / greatest(1, pg_relation_size('webhook_queue') / current_setting('block_size')::int))`;

const WEBHOOKS = `
with t as materialized (select app_now() as now),
queued as (
  select count(*) / ${SHARE} as waiting,
         extract(epoch from (select now from t) - min(due_at)
           filter (where holder is null and due_at <= (select now from t)))::float8 as oldest_s
    from webhook_queue tablesample system (100 * ${SHARE})
)
select count(*) filter (where status = 'enabled')::int as enabled,
       count(*) filter (where status = 'enabled' and failing_since is not null)::int as failing,
       count(*) filter (where status = 'disabled')::int as disabled,
       (select round(waiting)::int from queued) as waiting,
       (select coalesce(oldest_s, 0) from queued) as "oldestDueS"
  from webhook_endpoints`;

export async function webhookFigures(db: Queryable): Promise<WebhookFigures> {
  const [row] = await db.query<WebhookFigures>(WEBHOOKS);
  return row!;
}
