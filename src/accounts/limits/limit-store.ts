/**
 * Rate limits, counted in the database so that they are exact across all workers and nodes. A window starts at its
 * first request. Accepting (accept/store/limits/) counts sending. This file counts the other categories and stores the
 * settings.
 *
 * A window may start up to a minute in the future, because another worker's statement can commit first. A window
 * further ahead was started before the clock was set back, and is replaced.
 */
import type { Limit, LimitState } from '../../core/limits.ts';
import type { Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';

export type ScopeCategory = 'sending' | 'verification' | 'domains' | 'webhooks';
/** Categories that one statement counts per request. */
export type RequestCategory = Exclude<ScopeCategory, 'sending'> | 'dry_runs';
export type CountResult = { allowed: boolean; limit: LimitState };

type Window = { max: number; used: number; reset_s: number; window_s: number };

// `used` stops one above `max`, which distinguishes a refusal from the last permit.
const TAKE = `
insert into limit_windows as w (project_id, environment, category, started_at, used)
values ($1, $2, $3, app_now(), 1)
on conflict (project_id, environment, category) do update
   set (started_at, used) = (
         select case when open then w.started_at else app_now() end,
                case when open then least(w.used, coalesce(w.max, $4)) + 1 else 1 end
           from (select w.started_at + coalesce(w.window_s, $5) * interval '1 second' > app_now()
                        and w.started_at < app_now() + interval '1 minute' as open) is_open)
returning coalesce(max, $4)::int as max, used, coalesce(window_s, $5)::int as window_s,
          ceil(extract(epoch from started_at + coalesce(window_s, $5) * interval '1 second'
                                  - app_now()))::int as reset_s`;

/**
 * Counts one dry run, verification, added domain, or test or replay of a webhook, if the limit allows it.
 * @param configuredLimit applies if the project has no limit of its own
 */
export async function countRequest(
  db: Queryable,
  scope: Scope & { category: RequestCategory },
  configuredLimit: Limit,
): Promise<CountResult> {
  const values = [scope.projectId, scope.environment, scope.category];
  const [row] = await db.query<Window>(TAKE, [
    ...values,
    configuredLimit.max,
    configuredLimit.windowS,
  ]);
  if (!row) throw new Error('the limit was not returned');
  return countResultOf(row);
}

const PEEK = `
select coalesce(max, $4)::int as max, coalesce(window_s, $5)::int as window_s,
       case when is_open then used - coalesce(b.permits, 0) else 0 end as used,
       case when is_open then ceil(extract(epoch from ends_at - app_now()))::int
            else coalesce(window_s, $5)::int end as reset_s
  from limit_windows w,
       lateral (select w.started_at + coalesce(window_s, $5) * interval '1 second' as ends_at) e,
       lateral (select ends_at > app_now() and w.started_at < app_now() + interval '1 minute'
                       as is_open) o
  left join lateral (
    -- permits that a worker reserved and has not used (accept/store/limits/limit-blocks.ts)
    select sum(b.permits)::int as permits from limit_blocks b
     where w.category = 'sending' and b.project_id = w.project_id
       and b.environment = w.environment and b.started_at = w.started_at) b on true
 where w.project_id = $1 and w.environment = $2 and w.category = $3`;

export async function peekLimit(
  db: Queryable,
  scope: Scope & { category: ScopeCategory },
  configuredLimit: Limit,
): Promise<LimitState> {
  const values = [scope.projectId, scope.environment, scope.category];
  const [row] = await db.query<Window>(PEEK, [
    ...values,
    configuredLimit.max,
    configuredLimit.windowS,
  ]);
  const { max, windowS } = configuredLimit;
  return countResultOf(row ?? { max, used: 0, reset_s: windowS, window_s: windowS }).limit;
}

// The row of sending also contains the limit on recipients. Dry runs use the limit of sending.
// A limit without a maximum is not listed.
const LIST = `
select d.category, coalesce(w.max, d.max)::int as max,
       coalesce(w.window_s, d.window_s)::int as window_s, w.max is not null as "isOwn",
       case when o.is_open then w.used - coalesce(b.permits, 0) else 0 end as used,
       case when o.is_open then ceil(extract(epoch from e.ends_at - app_now()))::int
            else coalesce(w.window_s, d.window_s)::int end as reset_s
  from unnest($3::text[], $4::int[], $5::int[]) with ordinality d(category, max, window_s, place)
  left join lateral (
    select l.max, l.window_s, l.started_at, l.used from limit_windows l
     where l.project_id = $1 and l.environment = $2 and l.category = d.category
       and d.category <> 'dry_runs'
    union all
    select l.recipients_max, l.recipients_window_s, l.recipients_started_at, l.recipients_used
      from limit_windows l
     where l.project_id = $1 and l.environment = $2 and l.category = 'sending'
       and d.category = 'recipients'
    union all
    select s.max, s.window_s, l.started_at, l.used
      from (select 1) once
      left join limit_windows s on s.project_id = $1 and s.environment = $2 and s.category = 'sending'
      left join limit_windows l on l.project_id = $1 and l.environment = $2 and l.category = 'dry_runs'
     where d.category = 'dry_runs') w on true
 cross join lateral (
    select w.started_at + coalesce(w.window_s, d.window_s) * interval '1 second' as ends_at) e
 cross join lateral (
    select e.ends_at > app_now() and w.started_at < app_now() + interval '1 minute' as is_open) o
  left join lateral (
    select sum(b.permits)::int as permits from limit_blocks b
     where b.project_id = $1 and b.environment = $2
       and case d.category when 'sending' then b.started_at = w.started_at
                           when 'recipients' then b.recipients_started_at = w.started_at
                           else false end) b on true
 where coalesce(w.max, d.max) is not null
 order by d.place`;

type AnyCategory = ScopeCategory | 'recipients' | 'dry_runs';

export type ListedLimit<Category extends AnyCategory = AnyCategory> = LimitState & {
  category: Category;
  isOwn: boolean;
};

/**
 * Reads all limits of a project and environment, without counting.
 * @param configuredLimits in the order of the result; null when none is configured
 */
export async function listLimits<Category extends AnyCategory>(
  db: Queryable,
  { projectId, environment }: Scope,
  configuredLimits: readonly (readonly [Category, Limit | null])[],
): Promise<ListedLimit<Category>[]> {
  const rows = await db.query<Window & Pick<ListedLimit<Category>, 'category' | 'isOwn'>>(LIST, [
    projectId,
    environment,
    configuredLimits.map(([category]) => category),
    configuredLimits.map(([, limit]) => limit?.max ?? null),
    configuredLimits.map(([, limit]) => limit?.windowS ?? null),
  ]);
  return rows.map((row) => ({
    ...countResultOf(row).limit,
    category: row.category,
    isOwn: row.isOwn,
  }));
}

const COUNT_FAILURE = `
insert into auth_windows as w (client, started_at, used) values ($1, app_now(), 1)
on conflict (client) do update
   set (started_at, used) = (
         select case when open then w.started_at else app_now() end,
                case when open then least(w.used, $2) + 1 else 1 end
           from (select w.started_at + $3 * interval '1 second' > app_now()
                        and w.started_at < app_now() + interval '1 minute' as open) is_open)
returning $2::int as max, used, $3::int as window_s,
          ceil(extract(epoch from started_at + $3 * interval '1 second' - app_now()))::int
          as reset_s`;

/** Counts one failed authentication. `client` is an IPv4 address or an IPv6 /64 (net/ip-addresses.ts). */
export async function countAuthFailure(
  db: Queryable,
  client: string,
  limit: Limit,
): Promise<CountResult> {
  const [row] = await db.query<Window>(COUNT_FAILURE, [client, limit.max, limit.windowS]);
  if (!row) throw new Error('the limit was not returned');
  return countResultOf(row);
}

const RETURN_ATTEMPT = `
update auth_windows set used = used - 1
 where client = any($1::text[]) and used > 0 and started_at + $2 * interval '1 second' > app_now()`;

/** Takes back counted attempts that turned out to be no failure. */
export async function returnAuthAttempt(
  db: Queryable,
  clients: readonly string[],
  { windowS }: Limit,
): Promise<void> {
  await db.query(RETURN_ATTEMPT, [clients, windowS]);
}

const PURGE = `delete from auth_windows where started_at < app_now() - interval '1 day'`;

/** Deletes the ended windows of clients. No window is longer than a day. */
export async function purgeAuthWindows(db: Queryable): Promise<void> {
  await db.query(PURGE);
}

const SET = `
insert into limit_windows (project_id, environment, category, max, window_s)
values ($1, $2, $3, $4, $5)
on conflict (project_id, environment, category) do update
   set max = excluded.max, window_s = excluded.window_s`;

// In the row that accepting locks anyway.
const SET_RECIPIENTS = `
update limit_windows set recipients_max = $3, recipients_window_s = $4
 where project_id = $1 and environment = $2 and category = 'sending'`;

/** Sets the limit of a project and environment; null restores the default. */
export async function setLimit(
  db: Queryable,
  { projectId, environment, category }: Scope & { category: ScopeCategory | 'recipients' },
  limit: Limit | null,
): Promise<void> {
  const values = [limit?.max ?? null, limit?.windowS ?? null];
  if (category === 'recipients')
    await db.query(SET_RECIPIENTS, [projectId, environment, ...values]);
  else await db.query(SET, [projectId, environment, category, ...values]);
}

function countResultOf(row: Window): CountResult {
  return {
    allowed: row.used <= row.max,
    limit: {
      limit: row.max,
      remaining: Math.max(0, row.max - row.used),
      // Another worker may have started the window while this statement waited, after this statement's time.
      resetS: Math.min(row.reset_s, row.window_s),
      windowS: row.window_s,
    },
  };
}
