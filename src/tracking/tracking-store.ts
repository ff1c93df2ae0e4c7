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
with clock as materialized (select app_now() as now),
input as materialized (
  select input.* from json_to_recordset($1::json) as input(
    ord int, project_id uuid, environment text, email_id uuid, position smallint, event_id uuid,
    type text, ago_ms int, bot_reason text, facts json)
),
email as materialized (
  select email.project_id, email.environment, email.id, email.event_count, email.from_address, email.key_id,
         email.tags, email.template_id
    from emails email
   where (email.project_id, email.environment, email.id) in
         (select project_id, environment, email_id from input)
     and email.id = any($2::uuid[])
),
visit as materialized (
  select input.*, recipients.address, recipients.status,
         clock.now - input.ago_ms * interval '1 millisecond' as at,
         recipients.completed_at, recipients.provider,
         case input.type when 'email.opened' then recipients.opened_at
                         else recipients.clicked_at end as first_at,
         case input.type when 'email.opened' then coalesce(recipients.opens, 0)
              else coalesce(recipients.clicks, 0) end
           + row_number() over (partition by input.email_id, input.position, input.type order by input.ord) as nth
    from clock, input
    join email on email.project_id = input.project_id and email.environment = input.environment
                and email.id = input.email_id
   cross join lateral (
      select recipients.address, recipients.status, recipients.completed_at, recipients.opens,
             recipients.clicks, recipients.opened_at, recipients.clicked_at,
             recipients.provider from recipients
       where recipients.project_id = email.project_id and recipients.email_id = email.id
         and recipients.position = input.position
      offset 0) recipients
),
stored as materialized (
  select visit.*, email.event_count + row_number() over (partition by visit.email_id order by visit.ord) as seq,
         case when visit.bot_reason is not null then visit.bot_reason
              when visit.completed_at is null or visit.at < visit.completed_at then 'before_delivery'
              when visit.at < visit.completed_at + ${TOO_SOON_S} * interval '1 second' then 'too_soon' end
           as reason
    from visit join email on email.id = visit.email_id
   where visit.nth <= case visit.type when 'email.opened' then ${VISITS_STORED_MAX['email.opened']}
                              else ${VISITS_STORED_MAX['email.clicked']} end
),
counted_recipients as (
  update recipients
     set opens = nullif(coalesce(recipients.opens, 0) + stored.opens, 0),
         clicks = nullif(coalesce(recipients.clicks, 0) + stored.clicks, 0),
         opened_at = coalesce(recipients.opened_at, stored.opened_at),
         clicked_at = coalesce(recipients.clicked_at, stored.clicked_at)
    from (select project_id, email_id, position,
                 count(*) filter (where type = 'email.opened')::int as opens,
                 count(*) filter (where type = 'email.clicked')::int as clicks,
                 min(at) filter (where type = 'email.opened' and reason is null) as opened_at,
                 min(at) filter (where type = 'email.clicked' and reason is null) as clicked_at
            from stored group by 1, 2, 3) stored
   where recipients.project_id = stored.project_id and recipients.email_id = stored.email_id
     and recipients.position = stored.position
     and recipients.email_id = any($2::uuid[])
),
counted as (
  update emails
     set event_count = emails.event_count + stored.events, last_event = stored.last_event
    from (select project_id, environment, email_id, count(*)::int as events,
                 (array_agg(type order by seq desc))[1] as last_event
            from stored group by 1, 2, 3) stored
   where emails.project_id = stored.project_id and emails.environment = stored.environment
     and emails.id = stored.email_id
     and emails.id = any($2::uuid[])
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at, data)
  select stored.project_id, stored.environment, stored.email_id, stored.seq, stored.event_id, stored.type,
         stored.position, stored.at,
         (first_event.data::jsonb - 'scheduled_at'
           || jsonb_build_object('recipient', stored.address, 'status', stored.status,
                case stored.type when 'email.opened' then 'open' else 'click' end,
                stored.facts::jsonb || jsonb_build_object('is_bot', stored.reason is not null,
                                                     'bot_reason', stored.reason)))::json
    from stored
   cross join lateral (
      select events.data from events
       where events.project_id = stored.project_id and events.subject_id = stored.email_id
         and events.seq = 1 offset 0) first_event
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
