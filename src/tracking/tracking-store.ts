/**
 * Stores opens and clicks of tracked emails as events, with their webhook deliveries in the same commit.
 *
 * Their number is bounded: each recipient has a limit of stored opens and of stored clicks, and nothing is stored
 * after the email was removed. The statement locks the emails first, in the order of ids like
 * settle/settle-full-path.ts, so the numbers of an email's events have no gap.
 */
import type { EventType } from '../core/events.ts';
import type { TrackedRecipient } from '../mail/links/tracking-link.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { COUNT_VISITS } from '../stats/stats-store.ts';
import type { Database } from '../database/database.ts';

export type TrackedVisit = TrackedRecipient & {
  eventId: string;
  type: Extract<EventType, 'email.opened' | 'email.clicked'>;
  agoMs: number;
  /**
   * Why the visit is a machine's; null when the request looks like a person's. It may still be too early after
   * delivery.
   */
  botReason: string | null;
  /** The link of a click, and the facts about its client. */
  facts: object;
};

/** Limits for each recipient. Further visits are not stored. */
export const VISITS_STORED_MAX = { 'email.opened': 20, 'email.clicked': 50 } as const;
/** Seconds. Earlier visits come from the receiver's machines. */
export const TOO_SOON_S = 2;

// A statement of its own: the next one then sees the counters that other transactions have committed.
const LOCK_EMAILS = `
select from emails
 where project_id = any($1::uuid[]) and environment = any($2::text[]) and id = any($3::uuid[])
 order by id
   for update`;

const RECORD_VISITS = `
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    ord int, project_id uuid, environment text, email_id uuid, position smallint, event_id uuid,
    type text, ago_ms int, bot_reason text, facts json)
),
email as materialized (
  select e.project_id, e.environment, e.id, e.event_count, e.from_address, e.key_id, e.tags
    from emails e
   where (e.project_id, e.environment, e.id) in
         (select project_id, environment, email_id from input)
     and e.id = any($2::uuid[])
),
visit as materialized (
  select i.*, r.address, r.status, t.now - i.ago_ms * interval '1 millisecond' as at,
         r.completed_at, r.provider,
         case i.type when 'email.opened' then r.opened_at else r.clicked_at end as first_at,
         case i.type when 'email.opened' then coalesce(r.opens, 0) else coalesce(r.clicks, 0) end
           + row_number() over (partition by i.email_id, i.position, i.type order by i.ord) as nth
    from t, input i
    join email e on e.project_id = i.project_id and e.environment = i.environment
                and e.id = i.email_id
   cross join lateral (
      select r.address, r.status, r.completed_at, r.opens, r.clicks, r.opened_at, r.clicked_at,
             r.provider from recipients r
       where r.project_id = e.project_id and r.email_id = e.id and r.position = i.position
      offset 0) r
),
stored as materialized (
  select v.*, e.event_count + row_number() over (partition by v.email_id order by v.ord) as seq,
         case when v.bot_reason is not null then v.bot_reason
              when v.completed_at is null or v.at < v.completed_at then 'before_delivery'
              when v.at < v.completed_at + ${TOO_SOON_S} * interval '1 second' then 'too_soon' end
           as reason
    from visit v join email e on e.id = v.email_id
   where v.nth <= case v.type when 'email.opened' then ${VISITS_STORED_MAX['email.opened']}
                              else ${VISITS_STORED_MAX['email.clicked']} end
),
counted_recipients as (
  update recipients r
     set opens = nullif(coalesce(r.opens, 0) + s.opens, 0),
         clicks = nullif(coalesce(r.clicks, 0) + s.clicks, 0),
         opened_at = coalesce(r.opened_at, s.opened_at), clicked_at = coalesce(r.clicked_at, s.clicked_at)
    from (select project_id, email_id, position,
                 count(*) filter (where type = 'email.opened')::int as opens,
                 count(*) filter (where type = 'email.clicked')::int as clicks,
                 min(at) filter (where type = 'email.opened' and reason is null) as opened_at,
                 min(at) filter (where type = 'email.clicked' and reason is null) as clicked_at
            from stored group by 1, 2, 3) s
   where r.project_id = s.project_id and r.email_id = s.email_id and r.position = s.position
     and r.email_id = any($2::uuid[])
),
counted as (
  update emails e
     set event_count = e.event_count + s.events, last_event = s.last_event
    from (select project_id, environment, email_id, count(*)::int as events,
                 (array_agg(type order by seq desc))[1] as last_event
            from stored group by 1, 2, 3) s
   where e.project_id = s.project_id and e.environment = s.environment and e.id = s.email_id
     and e.id = any($2::uuid[])
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at, data)
  select s.project_id, s.environment, s.email_id, s.seq, s.event_id, s.type, s.position, s.at,
         (f.data::jsonb - 'scheduled_at'
           || jsonb_build_object('recipient', s.address, 'status', s.status,
                case s.type when 'email.opened' then 'open' else 'click' end,
                s.facts::jsonb || jsonb_build_object('is_bot', s.reason is not null,
                                                     'bot_reason', s.reason)))::json
    from stored s
   cross join lateral (
      select v.data from events v
       where v.project_id = s.project_id and v.subject_id = s.email_id and v.seq = 1 offset 0) f
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS},${COUNT_VISITS}
select (select count(*) from new_events)::int as stored,
       (select count(*) from queued_webhooks)::int as "queuedWebhooks"`;

/**
 * Stores the visits in one commit.
 * @returns how many were stored, and how many webhook deliveries were queued
 */
export async function recordVisits(
  db: Pick<Database, 'transaction'>,
  visits: readonly TrackedVisit[],
): Promise<{ stored: number; queuedWebhooks: number }> {
  const rows = visits.map((visit, index) => ({
    ord: index + 1,
    project_id: visit.projectId,
    environment: visit.environment,
    email_id: visit.emailId,
    position: visit.position,
    event_id: visit.eventId,
    type: visit.type,
    ago_ms: Math.round(visit.agoMs),
    bot_reason: visit.botReason,
    facts: visit.facts,
  }));
  const ids = [...new Set(visits.map(({ emailId }) => emailId))];
  const projects = [...new Set(visits.map(({ projectId }) => projectId))];
  const environments = [...new Set(visits.map(({ environment }) => environment))];
  return db.transaction(async (tx) => {
    await tx.query(LOCK_EMAILS, [projects, environments, ids]);
    const values = [JSON.stringify(rows), ids];
    const [result] = await tx.query<{ stored: number; queuedWebhooks: number }>(
      RECORD_VISITS,
      values,
    );
    if (!result) throw new Error('the statement of visits returned nothing');
    return result;
  });
}
