/**
 * Stores counts of mail by hour and by day (counts.ts).
 *
 * Guarantee: the counts are exact and contain only committed changes. The statement that accepts, settles, cancels or
 * tracks mail also appends its changes to `stats_deltas`, one row for each email or recipient. It does not group them,
 * because grouping costs more than the extra rows. Appending makes no worker wait for another. `foldStats` adds the
 * rows to `stats` and deletes them, in one transaction. A reader sums both tables in one snapshot, so it neither
 * misses nor repeats a row. Its cost does not depend on the number of emails.
 *
 * Folding limits the number of values of a dimension per day, so that generated tags or domains do not fill the disk.
 */
import {
  type Counts,
  COUNTERS,
  LATENCY_BOUNDS_S,
  LATENCY_CLASSES,
  RECIPIENT_COUNTERS,
  STATS_GRANULARITIES,
  STATS_VALUES_MAX,
  type StatsDimension,
  type StatsRange,
  TAG_VALUES_MAX,
} from './counts.ts';
import { STATS_KEPT_DAYS } from '../core/retention.ts';
import type { Scope } from '../core/scope.ts';
import { ADVISORY_LOCKS } from '../database/advisory-locks.ts';
import type { Database, Queryable } from '../database/database.ts';

/** The domain of a stored address. A quoted local part may also contain an @. */
const SENDER_DOMAIN = `split_part(email.from_address, '@', -1)`;

/** The latency class of a delivery that is stored now: its time since the email was due. */
const latencyClass = (now: string): string =>
  `width_bucket(extract(epoch from ${now} - greatest(email.created_at, email.scheduled_at))::float8,
                '{${LATENCY_BOUNDS_S.join()}}'::float8[])`;

/** A step of the accept statements. All are SQL; `from` has the scope, key and time of the emails. */
export const countAccepted = (
  accepted: Record<
    'from' | 'domain' | 'tags' | 'template' | 'emails' | 'recipients' | 'suppressed',
    string
  >,
): string => `
new_counts as (
  insert into stats_deltas (project_id, environment, at, what, domain, key_id, tags,
                            template_id, emails, recipients, suppressed)
  select project_id, environment, now, 'accepted', ${accepted.domain}, key_id, ${accepted.tags},
         ${accepted.template}, ${accepted.emails}, ${accepted.recipients}, ${accepted.suppressed}
    from ${accepted.from}
)`;

/**
 * A step of the settle statements. All are SQL; `from` has the emails as `email`.
 * @param settled.timedIf condition for counting the time to delivery
 * @param settled.reason category of the reply; absent: outcomes without a reason
 */
export const countSettled = (
  settled: Record<'from' | 'now' | 'status' | 'provider', string> & {
    timedIf?: string;
    reason?: string;
  },
): string => {
  const { from, now, status, provider, timedIf, reason = 'null' } = settled;
  const latency = latencyClass(now);
  return `
new_counts as (
  insert into stats_deltas (project_id, environment, at, what, domain, key_id, provider, tags,
                            template_id, reason, latency_class, recipients)
  select email.project_id, email.environment, ${now}, ${status}, ${SENDER_DOMAIN}, email.key_id,
         ${provider}, email.tags, email.template_id, ${reason},
         ${timedIf ? `case when ${timedIf} then ${latency} end` : latency}, 1
    from ${from}
)`;
};

/** A step of the cancel statement. Needs `counted` with the email, and `change` with the number of its recipients. */
export const COUNT_CANCELED = `
new_counts as (
  insert into stats_deltas (project_id, environment, at, what, domain, key_id, tags, template_id,
                            recipients)
  select email.project_id, email.environment, clock.now, 'canceled', ${SENDER_DOMAIN}, email.key_id,
         email.tags, email.template_id, change.count
    from clock, counted email, change
)`;

/** A step of the tracking statement. Needs `stored` and `email`. Counts a person's first visit, in its hour. */
export const COUNT_VISITS = `
new_counts as (
  insert into stats_deltas (project_id, environment, at, what, domain, key_id, provider, tags,
                            template_id, recipients)
  select visit.project_id, visit.environment, visit.at, visit.what, ${SENDER_DOMAIN}, email.key_id,
         visit.provider, email.tags, email.template_id,
         1
    from email join (
      select project_id, environment, email_id, position, provider, min(at) as at,
             case type when 'email.opened' then 'opened' else 'clicked' end as what
        from stored
       where reason is null and first_at is null
       group by project_id, environment, email_id, position, provider, type) visit
      on visit.email_id = email.id
)`;

/**
 * Expands each delta to one row for each dimension and each tag. The cut keeps a provider within the size of an index
 * entry.
 */
const expandSql = (deltas: string): string => `
  select delta.project_id, delta.environment, part.dimension, part.value,
         date_trunc('hour', delta.at, 'UTC') as hour, delta.what, delta.latency_class, delta.emails,
         delta.recipients, delta.suppressed
    from ${deltas} delta
   cross join lateral (
      select 'total', ''
       union all
      select 'domain', delta.domain
       union all
      select 'key', delta.key_id::text where delta.key_id is not null
       union all
      select 'provider', left(delta.provider, 255) where delta.provider <> ''
       union all
      select 'template', delta.template_id::text where delta.template_id is not null
       union all
      select 'reason', delta.reason where delta.reason <> ''
       union all
      select distinct 'tag', tag.name || ':' || tag.value
        from jsonb_to_recordset(delta.tags) as tag(name text, value text)) part(dimension, value)`;

const CLASSES = Array.from({ length: LATENCY_CLASSES }, (_, index) => index);
const sumWhere = (condition: string): string =>
  `coalesce(sum(recipients) filter (where ${condition}), 0)::int`;

const DELTA_SUMS = [
  'sum(emails)::int as emails',
  `${sumWhere(`what = 'accepted'`)} as recipients`,
  ...RECIPIENT_COUNTERS.map((name) =>
    name === 'suppressed'
      ? `${sumWhere(`what = 'suppressed'`)} + sum(suppressed)::int as suppressed`
      : `${sumWhere(`what = '${name}'`)} as ${name}`,
  ),
  `array[${CLASSES.map((index) => sumWhere(`latency_class = ${index}`)).join()}] as latencies`,
].join();

const sumSql = (row: string, type: 'int' | 'float8'): string => {
  const latencies = CLASSES.map((index) => `sum(${row}.latencies[${index + 1}])::${type}`).join();
  const sums = COUNTERS.map((name) => `sum(${row}.${name})::${type} as ${name}`);
  return [...sums, `array[${latencies}] as latencies`].join();
};

const addSql = (counter: string): string => `${counter} = stats.${counter} + excluded.${counter}`;
const LATENCIES_ADDED = CLASSES.map(
  (index) => `stats.latencies[${index + 1}] + excluded.latencies[${index + 1}]`,
).join();
const ADDED = [...COUNTERS.map(addSql), `latencies = array[${LATENCIES_ADDED}]`].join();

/** A tag counts by its name, which has its own limit on values. */
const nameOf = (dimension: string, value: string): string =>
  `case ${dimension} when 'tag' then split_part(${value}, ':', 1) else ${value} end`;

const VALUES_MAX = `case ranked.dimension ${Object.entries(STATS_VALUES_MAX)
  .map(([dimension, max]) => `when '${dimension}' then ${max}`)
  .join(' ')} end`;

/** Determines the value under which a row of `hours` counts, if the value is new on its day. */
const ADMIT_VALUES = `
fresh as materialized (
  select distinct hours.project_id, hours.environment, hours.dimension, start.day, hours.value,
         ${nameOf('hours.dimension', 'hours.value')} as name
    from hours
   cross join lateral (select date_trunc('day', hours.hour, 'UTC') as day) start
   where hours.dimension <> 'total'
     and not exists (select from stats
                      where stats.project_id = hours.project_id and stats.environment = hours.environment
                        and stats.granularity = 'day' and stats.dimension = hours.dimension
                        and stats.period = start.day and stats.value = hours.value)
),
present as materialized (
  select dimension_day.*, stats.value, ${nameOf('dimension_day.dimension', 'stats.value')} as name
    from (select distinct project_id, environment, dimension, day from fresh) dimension_day
   cross join lateral (
      select stats.value from stats
       where stats.project_id = dimension_day.project_id and stats.environment = dimension_day.environment
         and stats.granularity = 'day' and stats.dimension = dimension_day.dimension
         and stats.period = dimension_day.day
         and right(stats.value, 1) <> '*' offset 0) stats
),
of_names as (
  select project_id, environment, dimension, day, name, count(*) as count
    from present group by 1, 2, 3, 4, 5
),
of_days as (
  select project_id, environment, dimension, day, count(*) as count
    from present group by 1, 2, 3, 4
),
ranked as (
  select fresh.*, coalesce(of_names.count, 0) + row_number() over (
           partition by fresh.project_id, fresh.environment, fresh.dimension, fresh.day, fresh.name
           order by fresh.value) > ${TAG_VALUES_MAX} as is_beyond_name
    from fresh
    left join of_names using (project_id, environment, dimension, day, name)
),
admitted as materialized (
  select ranked.project_id, ranked.environment, ranked.dimension, ranked.day, ranked.value,
         case when ranked.is_beyond_name then ranked.name || ':*'
              when coalesce(of_days.count, 0) + row_number() over (
                     partition by ranked.project_id, ranked.environment, ranked.dimension, ranked.day,
                                  ranked.is_beyond_name
                     order by ranked.value) > ${VALUES_MAX} then '*'
              else ranked.value end as kept
    from ranked
    left join of_days using (project_id, environment, dimension, day)
)`;

const FOLD = `
with gone as (
  delete from stats_deltas
   where ctid = any(array(select ctid from stats_deltas limit $1 for update))
  returning *
),
collapsed as materialized (
  select project_id, environment, date_trunc('hour', at, 'UTC') as at, what, domain, key_id, provider,
         tags, template_id, reason, latency_class, sum(emails) as emails, sum(recipients) as recipients,
         sum(suppressed) as suppressed
    from gone group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
),
hours as materialized (
  select project_id, environment, dimension, value, hour, ${DELTA_SUMS}
    from (${expandSql('collapsed')}) expanded
   group by 1, 2, 3, 4, 5
),${ADMIT_VALUES},
added as (
  insert into stats (project_id, environment, granularity, dimension, period, value,
                          ${COUNTERS.join()}, latencies)
  select hours.project_id, hours.environment, periods.granularity, hours.dimension,
         date_trunc(periods.granularity, hours.hour, 'UTC'), coalesce(admitted.kept, hours.value),
         ${sumSql('hours', 'int')}
    from (values ('hour'), ('day')) periods(granularity)
   cross join hours
    left join admitted on admitted.project_id = hours.project_id and admitted.environment = hours.environment
                        and admitted.dimension = hours.dimension and admitted.value = hours.value
                        and admitted.day = date_trunc('day', hours.hour, 'UTC')
   group by 1, 2, 3, 4, 5, 6
  on conflict (project_id, environment, granularity, dimension, period, value) do update
     set ${ADDED}
)
select count(*)::int as folded from gone`;

/** Skips FOLD without mail, because planning it costs more than this look-up. */
const TAKE_FOLD_LOCK = {
  name: 'stats_fold_lock',
  text: 'select pg_try_advisory_xact_lock($1) as got where exists (select from stats_deltas)',
};

/**
 * Adds up to `limit` deltas to the counts. Only one process folds at a time, so that the limit on values is exact.
 * @returns the number of deltas
 */
export function foldStats(db: Pick<Database, 'transaction'>, limit: number): Promise<number> {
  return db.transaction(async (tx) => {
    const [lock] = await tx.query<{ got: boolean }>(TAKE_FOLD_LOCK, [ADVISORY_LOCKS.statsFold]);
    if (!lock?.got) return 0;
    const [row] = await tx.query<{ folded: number }>(FOLD, [limit]);
    return row?.folded ?? 0;
  });
}

export const STATS_ROWS_MAX = 10_000;

const OWN_DELTAS = '(select * from stats_deltas where project_id = $1 and environment = $2)';

/** Hours count in the last of the given starts before them, so that days of any time zone are sums of hours. */
const PERIOD = `coalesce(($8::timestamptz[])[width_bucket(counted.period, $8::timestamptz[])], counted.period)`;

const READ = `
with counted as (
  select stats.period, stats.value, ${COUNTERS.join()}, latencies
    from stats
   where stats.project_id = $1 and stats.environment = $2 and stats.granularity = $3 and stats.dimension = $4
     and stats.period >= $5 and stats.period < $6 and ($7::text is null or stats.value = $7)
  union all
  select date_trunc($3, expanded.hour, 'UTC'), expanded.value, ${DELTA_SUMS}
    from (${expandSql(OWN_DELTAS)}) expanded
   where expanded.dimension = $4 and expanded.hour >= $5 and expanded.hour < $6
     and ($7::text is null or expanded.value = $7)
   group by 1, 2
)
select ${PERIOD} as period, counted.value, ${sumSql('counted', 'float8')}
  from counted
 group by 1, 2
 order by 1, 2
 limit ${STATS_ROWS_MAX + 1}`;

export type StatsRow = Counts & { period: Date; value: string };

export type StatsQuery = StatsRange & {
  by: StatsDimension | null;
  /** Restricts to this sending domain. Requires `by` null or domain. */
  domain: string | null;
};

/** Returns rows in order of period and value, or null when there are more than STATS_ROWS_MAX rows. */
export async function readStats(
  db: Queryable,
  { projectId, environment }: Scope,
  { granularity, from, to, dayStarts = null, by, domain }: StatsQuery,
): Promise<StatsRow[] | null> {
  const dimension = domain === null ? (by ?? 'total') : 'domain';
  const stored = dayStarts === null ? granularity : 'hour';
  const values = [projectId, environment, stored, dimension, from, to, domain, dayStarts];
  const rows = await db.query<StatsRow>(READ, values);
  return rows.length > STATS_ROWS_MAX ? null : rows;
}

const namesSql = (table: 'api_keys' | 'templates'): string => `
select id, name from ${table} where project_id = $1 and environment = $2 and id = any($3::uuid[])`;

const NAMES = { key: namesSql('api_keys'), template: namesSql('templates') };

/** Returns the names of keys or templates that still exist. */
export async function findNames(
  db: Queryable,
  { projectId, environment }: Scope,
  { dimension, ids }: { dimension: keyof typeof NAMES; ids: readonly string[] },
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db.query<{ id: string; name: string }>(NAMES[dimension], [
    projectId,
    environment,
    ids,
  ]);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

const DELETE_OLD = `
delete from stats where ctid = any(array(
  select ctid from stats
   where granularity = $1 and period < app_now() - $2::int * interval '1 day' limit $3)) returning 1`;

/** @returns the number of rows deleted, at most `limit` of each granularity */
export async function deleteOldStats(db: Queryable, limit: number): Promise<number> {
  let deleted = 0;
  for (const granularity of STATS_GRANULARITIES) {
    const rows = await db.query(DELETE_OLD, [granularity, STATS_KEPT_DAYS[granularity], limit]);
    deleted += rows.length;
  }
  return deleted;
}
