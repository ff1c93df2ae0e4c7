/**
 * The full path of settling: stores status, event, webhook deliveries, and retry or suppression of many recipients in
 * one statement and one commit. It decides the outcomes that the fast path does not take or skips.
 *
 * A `late` outcome (a report after the recipient has ended) has no queue row. The allowed transitions alone decide,
 * so it counts once, and never for an open recipient.
 *
 * The email rows are locked in id order before any change. Counters are incremented, never recomputed from the
 * recipients. Recomputing would read an old snapshot: when two workers settled one email concurrently, it left 96 %
 * of emails open.
 */
import {
  recordHistorySql,
  SUPPRESSION_JSON,
  UNLESS_OUTLASTED,
} from '../suppressions/suppression-store.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { QUEUE_NOTICES } from '../notices/notice-store.ts';
import { countSettled } from '../stats/stats-store.ts';
import { STATUS_RANK, isFinal } from '../core/statuses.ts';
import { addressKey } from '../mail/address.ts';
import type { Queryable } from '../database/database.ts';
import type { Settlement } from './settlement.ts';
import type { Extent } from './unsettled.ts';

/** This condition is always true. It lets PostgreSQL skip the partitions of other weeks, which `= any` does not. */
const inRange = (id: string): string => `${id} between $4::uuid and $5::uuid`;

const STEPS = `
with clock as materialized (select app_now() as now),
input as materialized (
  select input.* from json_to_recordset($1::json) as input(
    ord int, project_id uuid, environment text, email_id uuid, position smallint, claim int, status text,
    rank smallint, event_id uuid, type text, data json, attempt json, smtp json, reason json,
    retry_ms int, provider text, counts_attempt boolean, late boolean, suppress_key text,
    suppress_address text,
    suppress_reason text, suppress_days int, suppress_event_id uuid, notice_kind text, notice json)
),
email as materialized (
  select email.project_id, email.environment, email.id, email.event_count, email.open_count, email.expires_at,
         email.created_at,
         email.scheduled_at, email.from_address, email.key_id, email.tags,
         email.template_id
    from emails email
   where (email.project_id, email.environment, email.id) in
         (select project_id, environment, email_id from input)
     and email.id = any($2::uuid[]) and ${inRange('email.id')}
   order by email.id
     for update
),
leased as materialized (
  select queue.email_id, queue.position, false as late
    from input
   cross join lateral (
      select queue.email_id, queue.position from queue
       where queue.project_id = input.project_id and queue.email_id = input.email_id
         and queue.position = input.position
         and queue.holder = $3::uuid and queue.claim = input.claim
         for update) queue
   where not input.late and exists (select from email where email.id = input.email_id)
  union all
  select input.email_id, input.position, true
    from input join email on email.id = input.email_id
   where input.late
),
changed_recipients as (
  update recipients
     set status = input.status,
         attempts = recipients.attempts + input.counts_attempt::int,
         smtp = coalesce(input.smtp, recipients.smtp),
         reason = input.reason,
         completed_at = case when input.rank is not null then clock.now end,
         next_attempt_at = case when input.rank is null
           then least(clock.now + input.retry_ms * interval '1 millisecond', email.expires_at) end,
         provider = case when input.rank is not null
           and not input.late then input.provider else recipients.provider end
    from clock, leased, input, email, status_transitions
   where input.email_id = leased.email_id and input.position = leased.position and email.id = leased.email_id
     and recipients.project_id = input.project_id and recipients.email_id = leased.email_id
     and recipients.position = leased.position
     and recipients.email_id = any($2::uuid[]) and ${inRange('recipients.email_id')}
     and status_transitions.from_status = recipients.status and status_transitions.to_status = input.status
     and input.late = (recipients.completed_at is not null)
  returning input.ord, input.project_id, input.environment, recipients.email_id, recipients.position,
            input.status, input.rank, input.event_id,
            input.type, input.data, input.attempt, input.counts_attempt, input.provider, input.late,
            recipients.next_attempt_at,
            case when input.late then recipients.provider else input.provider end as counted_provider,
            input.suppress_key, input.suppress_address, input.suppress_reason, input.suppress_days,
            input.suppress_event_id, input.reason ->> 'category' as category,
            input.notice_kind, input.notice
),
numbered as materialized (
  select changed_recipients.*,
         email.event_count + row_number() over (
           partition by changed_recipients.email_id order by changed_recipients.position) as seq
    from changed_recipients join email on email.id = changed_recipients.email_id
),
change as materialized (
  select project_id, environment, email_id,
         count(*)::int as events,
         count(rank) filter (where not late)::smallint as ended,
         coalesce(max(rank), 0) as worst,
         bool_or(status in ('delivered', 'sent')) as sent,
         (array_agg(type order by seq desc))[1] as last_event,
         max(seq) as last_seq
    from numbered group by 1, 2, 3
),
counted as (
  update emails email
     set open_count = email.open_count - change.ended, event_count = email.event_count + change.events,
         worst = greatest(email.worst, change.worst), last_event = change.last_event,
         sent_at = case when change.sent then coalesce(email.sent_at, clock.now) else email.sent_at end,
         completed_at = case when change.ended > 0
           and email.open_count = change.ended then clock.now else email.completed_at end
    from clock, change
   where email.project_id = change.project_id and email.environment = change.environment
     and email.id = change.email_id
     and email.id = any($2::uuid[]) and ${inRange('email.id')}
  returning email.event_count = change.last_seq as agrees
),
finished as (
  delete from queue using numbered
   where queue.project_id = numbered.project_id and queue.email_id = numbered.email_id
     and queue.position = numbered.position
     and numbered.rank is not null
),
requeued as (
  update queue
     set holder = null, due_at = numbered.next_attempt_at, provider = numbered.provider,
         attempts = queue.attempts + numbered.counts_attempt::int,
         last_instance = (select nodes.instance from nodes where nodes.id = $3::uuid)
    from numbered
   where queue.project_id = numbered.project_id and queue.email_id = numbered.email_id
     and queue.position = numbered.position
     and numbered.rank is null
),
suppressed as (
  insert into suppressions as suppression (project_id, environment, address_key, address, reason,
                                 source_email_id, created_at, expires_at)
  select distinct on (numbered.project_id, numbered.environment, numbered.suppress_key)
         numbered.project_id, numbered.environment, numbered.suppress_key, numbered.suppress_address,
         numbered.suppress_reason, numbered.email_id,
         clock.now, clock.now + numbered.suppress_days * interval '1 day'
    from numbered, clock
   where numbered.suppress_key is not null
   order by numbered.project_id, numbered.environment, numbered.suppress_key
  ${UNLESS_OUTLASTED}
  returning suppression.*
),
${recordHistorySql({ action: 'added', from: 'suppressed', by: `'delivery'` })},
${QUEUE_NOTICES},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at,
                      data, attempt)
  select numbered.project_id, numbered.environment, numbered.email_id, numbered.seq, numbered.event_id,
         numbered.type, numbered.position, clock.now,
         numbered.data, numbered.attempt
    from numbered, clock
  union all
  select suppression.project_id, suppression.environment, numbered.suppress_event_id, 1,
         numbered.suppress_event_id, 'suppression.added', null, clock.now,
         ${SUPPRESSION_JSON}, null
    from clock, suppressed suppression
    join numbered on numbered.project_id = suppression.project_id
                 and numbered.environment = suppression.environment
                   and numbered.suppress_key = suppression.address_key
                   and numbered.email_id = suppression.source_email_id
  returning project_id, environment, subject_id, seq, id, type
),${countSettled({
  from: 'clock, numbered join email on email.id = numbered.email_id',
  now: 'clock.now',
  status: 'numbered.status',
  provider: 'numbered.counted_provider',
  reason: 'numbered.category',
  // A late report says nothing about the time to delivery.
  timedIf: `numbered.status in ('delivered', 'sent') and not numbered.late`,
})}`;

/**
 * Checked before the commit: each outcome whose queue row is leased to this worker is stored, and the event count of
 * each email is the number of its last event. An outcome that is not stored would count as fenced off, and its mail
 * would be sent again. Only a bug or a changed row violates this. The batch is then rolled back and kept.
 */
const ASSERTIONS = `
 where (select assert_equal((select count(*) from numbered where not late),
                            (select count(*) from leased where not late),
                            'outcomes stored of recipients that are leased'))
   and (select assert_equal((select count(*) from counted where agrees),
                            (select count(*) from change),
                            'emails whose event count is that of their last event'))`;

const SETTLE_BATCH = `${STEPS},${FAN_OUT_OF_NEW_EVENTS}
select numbered.ord, (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from numbered${ASSERTIONS}`;

/** Without webhooks, for an outcome that cannot be stored otherwise (unsettled.ts). */
const SETTLE_BATCH_BARE = `${STEPS}
select numbered.ord, 0 as "queuedWebhooks" from numbered${ASSERTIONS}`;

/**
 * @param leaseId null: all outcomes are late
 * @returns which outcomes counted, and the number of webhook deliveries queued
 */
export async function storeFull(
  db: Queryable,
  batch: readonly Settlement[],
  { leaseId, extent }: { leaseId: string | null; extent: Extent },
): Promise<{ counted: boolean[]; queuedWebhooks: number }> {
  const statement =
    extent === 'bare'
      ? { name: 'settle_bare', text: SETTLE_BATCH_BARE }
      : { name: 'settle', text: SETTLE_BATCH };
  const emailIds = batch.map((one) => one.emailId);
  const inOrder = emailIds.toSorted();
  const rows = await db.query<{ ord: number; queuedWebhooks: number }>(statement, [
    JSON.stringify(batch.map(settlementJson)),
    emailIds,
    leaseId,
    inOrder[0],
    inOrder.at(-1),
  ]);
  const counted = new Set(rows.map(({ ord }) => ord));
  return {
    counted: batch.map((_, ord) => counted.has(ord)),
    queuedWebhooks: rows[0]?.queuedWebhooks ?? 0,
  };
}

function settlementJson(one: Settlement, ord: number): object {
  return {
    ord,
    project_id: one.projectId,
    environment: one.environment,
    email_id: one.emailId,
    position: one.position,
    claim: one.claim,
    status: one.status,
    rank: isFinal(one.status) ? STATUS_RANK[one.status] : null,
    event_id: one.eventId,
    type: one.eventType,
    data: one.data,
    attempt: one.attempt,
    smtp: one.smtp,
    reason: one.reason,
    retry_ms: one.retryMs,
    provider: one.provider,
    counts_attempt: one.attempt !== null && !one.late,
    late: one.late,
    suppress_key: one.suppress && addressKey(one.suppress.address),
    suppress_address: one.suppress?.address ?? null,
    suppress_reason: one.suppress?.reason ?? null,
    suppress_days: one.suppress?.days ?? null,
    suppress_event_id: one.suppress?.eventId ?? null,
    notice_kind: one.notice?.kind,
    notice: one.notice?.facts,
  };
}
