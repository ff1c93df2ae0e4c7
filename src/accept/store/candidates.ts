/**
 * The first steps of the statements that accept emails (statement.ts, email-batch.ts) and of a dry run
 * (dry-run.ts): from the requests to `numbered`, which has those that may be stored and whether they fit into
 * the limits.
 *
 * `windows` locks the limit rows first, in one order, so that the count is exact over all nodes and batches
 * cannot deadlock. Look-ups are lateral with a limit, one index probe per request: with a join the planner
 * could read a whole table that was empty when it planned. There are two limits, on emails and on recipients;
 * emails with few recipients come first, so that as many as possible fit.
 *
 * There are two kinds of each statement, because those for projects whose limit has blocks (limit-blocks.ts) take longer
 * to start: 0.14 ms of about 0.8. The other kind stores nothing of a batch with emails of such a project.
 */
import { SCHEDULE_DAYS_MAX } from '../../core/retry.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import { BLOCKS_OF_WINDOWS, SHARING } from './limit-blocks.ts';

/*
 * Parts that fast-path.ts has as well. `i` is what is asked for, `t` has the time, `w` the limit row and `d` the
 * domain.
 */

/** The stored form of what is tracked (mail/links/tracking-link.ts); null: nothing, or it cannot be. */
export const TRACKING = `case when i.tracking_base is not null then
           nullif(concat_ws('+', case when coalesce(i.track_opens, d.track_opens) then 'opens' end,
                                 case when coalesce(i.track_clicks, d.track_clicks) then 'clicks' end),
                  '') || ':' || i.tracking_base end`;

/**
 * The limit row with what holds for it: the project's own limits, else the configured ones.
 * @param condition of the row `w`
 * @param lock empty: the row is only read
 */
export const limitWindow = (condition = 'true', lock = ' for update'): string => `
      select w.project_id, w.environment, w.has_blocks, w.started_at, w.used, m.max,
             m.window_s * interval '1 second' as length, w.recipients_started_at, w.recipients_used,
             r.recipients_max, r.window_s * interval '1 second' as recipients_length,
             array[m.max, m.window_s, r.recipients_max, r.window_s] as limits
        from (select * from limit_windows w
               where w.project_id = i.project_id and w.environment = i.environment
                 and w.category = 'sending' and ${condition} limit 1${lock}) w
       cross join lateral (
          select coalesce(w.max, $5::int) as max, coalesce(w.window_s, $6::int) as window_s) m
       cross join lateral (
          select coalesce(w.recipients_max, $9::int, least(m.max * 50::bigint, 2147483647)::int)
                   as recipients_max,
                 coalesce(w.recipients_window_s, $10::int, m.window_s) as window_s) r`;

/** Whether the windows of both limits have not ended. @param w the name of a limitWindow */
export const openWindows = (w: string): string => `
      select ${w}.started_at + ${w}.length > t.now and ${w}.started_at < t.now + interval '1 minute'
             as is_open,
             ${w}.recipients_started_at + ${w}.recipients_length > t.now
             and ${w}.recipients_started_at < t.now + interval '1 minute' as is_open_for_recipients`;

/** The counts that hold now; `o` is openWindows. */
export const CURRENT_COUNTS = `
         case when o.is_open then w.used else 0 end as used,
         case when o.is_open then w.started_at else t.now end as started_at,
         case when o.is_open_for_recipients then w.recipients_used else 0 end as recipients_used,
         case when o.is_open_for_recipients then w.recipients_started_at else t.now end
           as recipients_started_at`;

export const VALID_KEY = `
      select k.id from api_keys k
       where k.project_id = i.project_id and k.id = i.key_id and k.environment = i.environment
         and k.revoked_at is null and (k.expires_at is null or k.expires_at > t.now)
         and (k.domain is null or k.domain = i.domain) limit 1`;

export const VERIFIED_DOMAIN = `
      select d.id, d.ed25519_verified, nullif(d.tls, 'opportunistic') as tls,
             d.track_opens, d.track_clicks, d.paused_at is not null as is_paused from domains d
       where d.project_id = i.project_id and d.environment = i.environment and d.name = i.domain
         and d.deleted_at is null and d.status = 'verified' limit 1`;

const WINDOWS = `
windows as materialized (
  select w.* from (select distinct project_id, environment from input order by 1, 2) i
   cross join lateral (${limitWindow()}) w
),
current_windows as materialized (
  select w.project_id, w.environment, w.max, w.length, w.recipients_max, w.recipients_length,
         w.has_blocks as is_left, 0 as elsewhere,${CURRENT_COUNTS}
    from t, windows w
   cross join lateral (${openWindows('w')}) o
)`;

/** With the changes of blocks, which writingBlocks writes. */
const WINDOWS_WITH_BLOCKS = `
windows as materialized (
  select w.*, b.*
    from (select project_id, environment, count(*) as emails,
                 sum(json_array_length(recipients)) as recipients
            from input group by 1, 2 order by 1, 2) i
   cross join t
   cross join lateral (${limitWindow()}) w
   cross join lateral (${openWindows('w')}) o
   cross join lateral (${SHARING}) s
   cross join lateral (${BLOCKS_OF_WINDOWS}) b
),
current_windows as materialized (
  select w.project_id, w.environment, w.max, w.length, w.recipients_max, w.recipients_length,
         false as is_left, w.limits, w.slots, w.permits,
         case when o.is_open then w.elsewhere else 0 end as elsewhere,${CURRENT_COUNTS}
    from t, (
      select w.project_id, w.environment, w.max, w.length, w.recipients_max, w.recipients_length,
             w.limits, w.slots, w.permits, w.elsewhere, w.started_at, w.used - w.returned as used,
             w.recipients_started_at, w.recipients_used - w.returned_recipients as recipients_used
        from windows w) w
   cross join lateral (${openWindows('w')}) o
)`;

/** @param hasBlocks of the projects: which kind of statement */
export const candidates = (hasBlocks: boolean): string => `
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
      ord int, project_id uuid, environment text, key_id uuid, id uuid, event_id uuid, domain text,
      from_address text, from_key text, from_name text, to_list text[], cc_list text[], bcc_list text[],
      reply_to text[], subject text, tags jsonb, metadata jsonb, headers json, unsubscribe_url text,
      tls text, track_opens boolean, track_clicks boolean, tracking_base text,
      scheduled_at timestamptz, lifetime_s int, recipients json, event_data json, response text, hand_over boolean,
      idempotency_key text, fingerprint text, message_id text, accepts_suppressed boolean, dsn json)
),
${hasBlocks ? WINDOWS_WITH_BLOCKS : WINDOWS},
recipient as materialized (
  select i.ord, i.project_id, i.environment, i.id as email_id, r.*,
         exists (select from suppressions s
                  where s.project_id = i.project_id and s.environment = i.environment
                    and s.address_key = r.address_key
                    and ${holdsBack('t.now')}) as suppressed
    from t, input i
   cross join lateral json_to_recordset(i.recipients) as r(
     position smallint, address text, address_key text, stored_key text, kind text, destination text, provider text,
     event_id uuid, notice json)
),
tally as materialized (
  select ord, count(*) filter (where not suppressed)::smallint as open,
         count(*) filter (where suppressed)::int as suppressed
    from recipient group by ord
),
checked as materialized (
  select i.*, coalesce(i.scheduled_at > t.now, false) as is_scheduled,
         greatest(t.now, i.scheduled_at) as starts_at, d.id as domain_id, d.ed25519_verified as dual_signed,
         coalesce(i.tls, d.tls) as effective_tls, ${TRACKING} as tracking, d.is_paused, c.open, c.suppressed, replay.email_id as replay_id,
         replay.fingerprint as replay_fingerprint, replay.response as replay_response,
         case when k.id is null then 'key_refused'
              when replay.email_id is not null then 'replayed'
              when i.scheduled_at > t.now + interval '${SCHEDULE_DAYS_MAX} days' then 'schedule_refused'
              when d.id is null then 'domain_refused'
              when c.open = 0 and i.accepts_suppressed is not true then 'suppressed'
              else 'candidate' end as verdict
    from t, input i
    join tally c on c.ord = i.ord
    left join lateral (${VALID_KEY}) k on true
    left join lateral (${VERIFIED_DOMAIN}) d on true
    left join lateral (
      select m.email_id, m.fingerprint, m.response from idempotency m
       where m.project_id = i.project_id and m.environment = i.environment
         and m.key = i.idempotency_key and m.expires_at > t.now limit 1) replay on true
),
numbered as materialized (
  select c.*, row_number() over place <= w.max - w.used as fits_emails,
         sum(c.open) over place <= w.recipients_max - w.recipients_used as fits_recipients
    from checked c
    join current_windows w on w.project_id = c.project_id and w.environment = c.environment
   where c.verdict = 'candidate' and not (select bool_or(is_left) from current_windows)
  window place as (partition by c.project_id, c.environment order by c.open, c.ord
                   rows unbounded preceding)
)`;

/** For a statement that stores nothing. */
export const CANDIDATES_UNLOCKED = candidates(true).replaceAll(/ for update( skip locked)?/g, '');
