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
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    ord int, project_id uuid, environment text, email_id uuid, position smallint, claim int, status text,
    rank smallint, event_id uuid, type text, data json, attempt json, smtp json, reason json,
    retry_ms int, provider text, counts_attempt boolean, late boolean, suppress_key text, suppress_address text,
    suppress_reason text, suppress_days int, suppress_event_id uuid, notice_kind text, notice json)
),
email as materialized (
  select e.project_id, e.environment, e.id, e.event_count, e.open_count, e.expires_at, e.created_at,
         e.scheduled_at, e.from_address, e.key_id, e.tags
    from emails e
   where (e.project_id, e.environment, e.id) in
         (select project_id, environment, email_id from input)
     and e.id = any($2::uuid[]) and ${inRange('e.id')}
   order by e.id
     for update
),
leased as materialized (
  select q.email_id, q.position, false as late
    from input i
   cross join lateral (
      select q.email_id, q.position from queue q
       where q.project_id = i.project_id and q.email_id = i.email_id and q.position = i.position
         and q.holder = $3::uuid and q.claim = i.claim
         for update) q
   where not i.late and exists (select from email e where e.id = i.email_id)
  union all
  select i.email_id, i.position, true from input i join email e on e.id = i.email_id where i.late
),
changed_recipients as (
  update recipients r
     set status = i.status,
         attempts = r.attempts + i.counts_attempt::int,
         smtp = coalesce(i.smtp, r.smtp),
         reason = i.reason,
         completed_at = case when i.rank is not null then t.now end,
         next_attempt_at = case when i.rank is null
           then least(t.now + i.retry_ms * interval '1 millisecond', e.expires_at) end,
         provider = case when i.rank is not null and not i.late then i.provider else r.provider end
    from t, leased l, input i, email e, status_transitions s
   where i.email_id = l.email_id and i.position = l.position and e.id = l.email_id
     and r.project_id = i.project_id and r.email_id = l.email_id and r.position = l.position
     and r.email_id = any($2::uuid[]) and ${inRange('r.email_id')}
     and s.from_status = r.status and s.to_status = i.status
     and i.late = (r.completed_at is not null)
  returning i.ord, i.project_id, i.environment, r.email_id, r.position, i.status, i.rank, i.event_id,
            i.type, i.data, i.attempt, i.counts_attempt, i.provider, i.late, r.next_attempt_at,
            case when i.late then r.provider else i.provider end as counted_provider,
            i.suppress_key, i.suppress_address, i.suppress_reason, i.suppress_days, i.suppress_event_id,
            i.notice_kind, i.notice
),
numbered as materialized (
  select m.*, e.event_count + row_number() over (partition by m.email_id order by m.position) as seq
    from changed_recipients m join email e on e.id = m.email_id
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
  update emails e
     set open_count = e.open_count - c.ended, event_count = e.event_count + c.events,
         worst = greatest(e.worst, c.worst), last_event = c.last_event,
         sent_at = case when c.sent then coalesce(e.sent_at, t.now) else e.sent_at end,
         completed_at = case when c.ended > 0 and e.open_count = c.ended then t.now else e.completed_at end
    from t, change c
   where e.project_id = c.project_id and e.environment = c.environment and e.id = c.email_id
     and e.id = any($2::uuid[]) and ${inRange('e.id')}
  returning e.event_count = c.last_seq as agrees
),
finished as (
  delete from queue q using numbered n
   where q.project_id = n.project_id and q.email_id = n.email_id and q.position = n.position
     and n.rank is not null
),
requeued as (
  update queue q
     set holder = null, due_at = n.next_attempt_at, provider = n.provider,
         attempts = q.attempts + n.counts_attempt::int,
         last_instance = (select w.instance from nodes w where w.id = $3::uuid)
    from numbered n
   where q.project_id = n.project_id and q.email_id = n.email_id and q.position = n.position
     and n.rank is null
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
${recordHistorySql({ action: 'added', from: 'suppressed', by: `'delivery'` })},
${QUEUE_NOTICES},
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
),${countSettled({
  from: 't, numbered n join email e on e.id = n.email_id',
  now: 't.now',
  status: 'n.status',
  provider: 'n.counted_provider',
  // A late report says nothing about the time to delivery.
  timedIf: `n.status in ('delivered', 'sent') and not n.late`,
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
select n.ord, (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from numbered n${ASSERTIONS}`;

/** Without webhooks, for an outcome that cannot be stored otherwise (unsettled.ts). */
const SETTLE_BATCH_BARE = `${STEPS}
select n.ord, 0 as "queuedWebhooks" from numbered n${ASSERTIONS}`;

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
