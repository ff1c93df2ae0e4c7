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
insert into limit_windows (project_id, environment, category, started_at, used)
values ($1, $2, $3, app_now(), 1)
on conflict (project_id, environment, category) do update
   set (started_at, used) = (
         select case when open then limit_windows.started_at else app_now() end,
                case when open then least(limit_windows.used, coalesce(limit_windows.max, $4)) + 1 else 1 end
           from (select limit_windows.started_at + coalesce(limit_windows.window_s, $5) * interval '1 second'
                          > app_now()
                        and limit_windows.started_at < app_now() + interval '1 minute' as open) is_open)
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
       case when is_open then used - coalesce(blocks.permits, 0) else 0 end as used,
       case when is_open then ceil(extract(epoch from ends_at - app_now()))::int
            else coalesce(window_s, $5)::int end as reset_s
  from limit_windows limit_window,
       lateral (select limit_window.started_at + coalesce(window_s, $5) * interval '1 second'
                         as ends_at) ending,
       lateral (select ends_at > app_now() and limit_window.started_at < app_now() + interval '1 minute'
                       as is_open) state
  left join lateral (
    -- permits that a worker reserved and has not used (accept/store/limits/limit-blocks.ts)
    select sum(blocks.permits)::int as permits from limit_blocks blocks
     where limit_window.category = 'sending' and blocks.project_id = limit_window.project_id
       and blocks.environment = limit_window.environment
       and blocks.started_at = limit_window.started_at) blocks on true
 where limit_window.project_id = $1 and limit_window.environment = $2 and limit_window.category = $3`;

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
select listed.category, coalesce(limit_window.max, listed.max)::int as max,
       coalesce(limit_window.window_s, listed.window_s)::int as window_s,
       limit_window.max is not null as "isOwn",
       case when state.is_open then limit_window.used - coalesce(blocks.permits, 0) else 0 end as used,
       case when state.is_open then ceil(extract(epoch from ending.ends_at - app_now()))::int
            else coalesce(limit_window.window_s, listed.window_s)::int end as reset_s
  from unnest($3::text[], $4::int[], $5::int[]) with ordinality listed(category, max, window_s, place)
  left join lateral (
    select counted.max, counted.window_s, counted.started_at, counted.used from limit_windows counted
     where counted.project_id = $1 and counted.environment = $2 and counted.category = listed.category
       and listed.category <> 'dry_runs'
    union all
    select counted.recipients_max, counted.recipients_window_s, counted.recipients_started_at,
           counted.recipients_used
      from limit_windows counted
     where counted.project_id = $1 and counted.environment = $2 and counted.category = 'sending'
       and listed.category = 'recipients'
    union all
    select sending.max, sending.window_s, counted.started_at, counted.used
      from (select 1) once
      left join limit_windows sending on sending.project_id = $1 and sending.environment = $2
           and sending.category = 'sending'
      left join limit_windows counted on counted.project_id = $1 and counted.environment = $2
           and counted.category = 'dry_runs'
     where listed.category = 'dry_runs') limit_window on true
 cross join lateral (
    select limit_window.started_at + coalesce(limit_window.window_s, listed.window_s) * interval '1 second'
      as ends_at) ending
 cross join lateral (
    select ending.ends_at > app_now() and limit_window.started_at < app_now() + interval '1 minute'
             as is_open) state
  left join lateral (
    select sum(blocks.permits)::int as permits from limit_blocks blocks
     where blocks.project_id = $1 and blocks.environment = $2
       and case listed.category when 'sending' then blocks.started_at = limit_window.started_at
                           when 'recipients' then blocks.recipients_started_at = limit_window.started_at
                           else false end) blocks on true
 where coalesce(limit_window.max, listed.max) is not null
 order by listed.place`;

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
insert into auth_windows (client, started_at, used) values ($1, app_now(), 1)
on conflict (client) do update
   set (started_at, used) = (
         select case when open then auth_windows.started_at else app_now() end,
                case when open then least(auth_windows.used, $2) + 1 else 1 end
           from (select auth_windows.started_at + $3 * interval '1 second' > app_now()
                        and auth_windows.started_at < app_now() + interval '1 minute' as open) is_open)
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
