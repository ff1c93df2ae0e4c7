/**
 * The settle statement: a batch of outcomes in one round trip and one commit.
 *
 * Fenced: an outcome counts only while its queue row names this holder and this claim. A `late`
 * one (what came back after the recipient had ended) has no queue row any more: the allowed
 * transitions alone decide, so it counts once, and never for a recipient that is still open.
 *
 * The email rows are locked in id order before anything changes; counters are changed, never
 * recomputed from the recipients: with the recipients read under the old snapshot, two workers
 * settling one email at once left 96 % of emails open for ever.
 *
 * One row per outcome that counted comes back; an outcome that is missing was fenced off.
 */
import { remember } from './suppression-history.ts';
import { SUPPRESSION_JSON, UNLESS_OUTLASTED } from './suppressions.ts';
import { TELL } from './tell-sql.ts';

const STEPS = `
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    project_id uuid, environment text, email_id uuid, position smallint, claim int, status text,
    rank smallint, event_id uuid, type text, data json, attempt json, smtp json, reason json,
    retry_ms int, provider text, counts_attempt boolean, late boolean, suppress_key text, suppress_address text,
    suppress_reason text, suppress_days int, suppress_event_id uuid)
),
email as materialized (
  select e.project_id, e.environment, e.id, e.event_count, e.open_count, e.expires_at
    from emails e
   where (e.project_id, e.environment, e.id) in
         (select project_id, environment, email_id from input)
     and e.id = any($2::uuid[])
   order by e.id
     for update
),
held as materialized (
  select q.email_id, q.position
    from input i
   cross join lateral (
      select q.email_id, q.position from queue q
       where q.email_id = i.email_id and q.position = i.position
         and q.holder = $3::uuid and q.claim = i.claim
         for update) q
   where exists (select from email e where e.id = i.email_id)
  union all
  select i.email_id, i.position from input i join email e on e.id = i.email_id where i.late
),
moved as (
  update recipients r
     set status = i.status, attempts = r.attempts + i.counts_attempt::int, smtp = coalesce(i.smtp, r.smtp), reason = i.reason, completed_at = case when i.rank is not null then t.now end,
         next_attempt_at = case when i.rank is null
           then least(t.now + i.retry_ms * interval '1 millisecond', e.expires_at) end
    from t, held h, input i, email e, status_transitions s
   where i.email_id = h.email_id and i.position = h.position and e.id = h.email_id
     and r.project_id = i.project_id and r.email_id = h.email_id and r.position = h.position
     and r.email_id = any($2::uuid[])
     and s.from_status = r.status and s.to_status = i.status
     and i.late = (r.completed_at is not null)
  returning i.project_id, i.environment, r.email_id, r.position, i.status, i.rank, i.event_id,
            i.type, i.data, i.attempt, i.counts_attempt, i.provider, i.late, r.next_attempt_at, i.suppress_key,
            i.suppress_address, i.suppress_reason, i.suppress_days, i.suppress_event_id
),
numbered as materialized (
  select m.*, e.event_count + row_number() over (partition by m.email_id order by m.position) as seq
    from moved m join email e on e.id = m.email_id
),
change as materialized (
  select project_id, environment, email_id, count(*)::int as events, count(rank) filter (where not late)::smallint as ended,
         coalesce(max(rank), 0) as worst, bool_or(status in ('delivered', 'sent')) as sent,
         (array_agg(type order by seq desc))[1] as last_event
    from numbered group by 1, 2, 3
),
counted as (
  update emails e
     set open_count = e.open_count - c.ended, event_count = e.event_count + c.events,
         worst = greatest(e.worst, c.worst), last_event = c.last_event,
         sent_at = case when c.sent then coalesce(e.sent_at, t.now) else e.sent_at end,
         completed_at = case when c.ended > 0 and e.open_count = c.ended then t.now else e.completed_at end
    from t, change c
   where e.project_id = c.project_id and e.environment = c.environment and e.id = c.email_id
     and e.id = any($2::uuid[])
),
finished as (
  delete from queue q using numbered n
   where q.email_id = n.email_id and q.position = n.position and n.rank is not null
),
again as (
  update queue q
     set holder = null, due_at = n.next_attempt_at, provider = n.provider,
         attempts = q.attempts + n.counts_attempt::int
    from numbered n
   where q.email_id = n.email_id and q.position = n.position and n.rank is null
),
suppressed as (
  insert into suppressions as s (project_id, environment, address_key, address, reason,
                                 source_email_id, created_at, expires_at)
  select distinct on (n.project_id, n.environment, n.suppress_key)
         n.project_id, n.environment, n.suppress_key, n.suppress_address, n.suppress_reason, n.email_id,
         t.now, t.now + n.suppress_days * interval '1 day'
    from numbered n, t
   where n.suppress_key is not null
   order by n.project_id, n.environment, n.suppress_key
  ${UNLESS_OUTLASTED}
  returning s.*
),
${remember({ action: 'added', from: 'suppressed', by: `'delivery'` })},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at,
                      data, attempt)
  select n.project_id, n.environment, n.email_id, n.seq, n.event_id, n.type, n.position, t.now,
         n.data, n.attempt
    from numbered n, t
  union all
  select s.project_id, s.environment, n.suppress_event_id, 1, n.suppress_event_id,
         'suppression.added', null, t.now,
         ${SUPPRESSION_JSON}, null
    from t, suppressed s
    join numbered n on n.project_id = s.project_id and n.environment = s.environment
                   and n.suppress_key = s.address_key and n.email_id = s.source_email_id
  returning project_id, environment, subject_id, seq, id, type
)`;

export const SETTLE_BATCH = `${STEPS},${TELL}
select n.email_id as "emailId", n.position, (select count(*) from told_queue)::int as told
  from numbered n`;

/** The same without webhooks: for an outcome that could not be written otherwise (unsettled.ts). */
export const SETTLE_BATCH_BARE = `${STEPS}
select n.email_id as "emailId", n.position, 0 as told from numbered n`;
