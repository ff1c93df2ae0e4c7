/**
 * Cancels and reschedules an accepted email before it is sent.
 *
 * Guarantee: a recipient is canceled only while no worker has leased it, and is not delivered afterwards. Each change
 * is one transaction. It locks the email, like settling, and then its free queue rows. Claims skip locked rows, and
 * an earlier claim keeps its rows. A row that was reclaimed from a dead worker is `in_doubt`: that worker may have
 * sent the final dot, so the recipient is not free either.
 */
import type { Database, Queryable } from '../database/database.ts';
import { SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import { STATUS_RANK } from '../core/statuses.ts';
import type { EmailRef } from './email-store.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { newId } from '../database/ids.ts';
import { IS_FREE } from '../delivery/queue/queue-store.ts';
import { COUNT_CANCELED } from '../stats/stats-store.ts';

/** $4 and $5 are the key and the domain that the caller is restricted to. */
const LOCK = `
select from emails
 where project_id = $1 and environment = $2 and id = $3 and ($4::uuid is null or key_id = $4)
   and ($5::text is null or right(from_address, length($5) + 1) = '@' || $5)
   for update`;

/** Locks first, so that the next statement sees changes that committed while this one waited. */
async function lockEmail(tx: Queryable, ref: EmailRef): Promise<boolean> {
  const { projectId, environment, id, keyId, domain } = ref;
  return (await tx.query(LOCK, [projectId, environment, id, keyId, domain])).length > 0;
}

const CANCELED = `jsonb_build_object('status', 'canceled', 'recipients', x.recipients)`;
const RESCHEDULED = `jsonb_build_object('status', x.status, 'scheduled_at', wire_time(x.starts_at))`;

const eventData = (added: string): string => `
         (select (v.data::jsonb - 'scheduled_at' || ${added})::json from events v
           where v.project_id = $1 and v.environment = $2 and v.subject_id = $3 and v.seq = 1)`;

const UNCANCELABLE_COUNTS = `
       (select count(*) from queue q
         where q.project_id = $1 and q.email_id = $3 and q.holder is not null)::int as sending,
       (select count(*) from queue q
         where q.project_id = $1 and q.email_id = $3 and ${IS_FREE} and q.in_doubt)::int as "inDoubt"`;

const CANCEL = `
with t as materialized (select app_now() as now),
free as materialized (
  select q.position from queue q
   where q.project_id = $1 and q.email_id = $3 and ${IS_FREE} and not q.in_doubt
     for update
),
canceled as (
  update recipients r
     set status = 'canceled', reason = null, next_attempt_at = null, completed_at = t.now
    from t, free f, status_transitions s
   where r.project_id = $1 and r.email_id = $3 and r.position = f.position
     and s.from_status = r.status and s.to_status = 'canceled'
  returning r.position, r.address
),
change as materialized (
  select count(*)::smallint as count, json_agg(address order by position) as recipients
    from canceled
),
removed as (
  delete from queue q using canceled c
   where q.project_id = $1 and q.email_id = $3 and q.position = c.position
),
counted as (
  update emails e
     set open_count = e.open_count - c.count, event_count = e.event_count + 1,
         worst = greatest(e.worst, ${STATUS_RANK.canceled}), last_event = 'email.canceled',
         completed_at = case when e.open_count = c.count then t.now else e.completed_at end
    from t, change c
   where e.project_id = $1 and e.environment = $2 and e.id = $3 and c.count > 0
  returning e.project_id, e.environment, e.from_address, e.key_id, e.tags, e.event_count
),${COUNT_CANCELED},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, c.event_count, $4, 'email.canceled', t.now,
         ${eventData(CANCELED)}
    from t, counted c, change x
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS}
select (select count(*) from canceled)::int as canceled, ${UNCANCELABLE_COUNTS}
 where (select assert_equal((select count(*) from canceled), (select count(*) from free),
                            'recipients canceled of those that are free'))`;

/** Numbers of recipients that a worker has leased, and that may have been delivered. */
export type UncancelableCounts = { sending: number; inDoubt: number };

/** Nothing was changed unless `canceled` is positive. */
export type Cancellation = UncancelableCounts & { canceled: number };

export function cancelEmail(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
): Promise<Cancellation | null> {
  const { projectId, environment, id } = ref;
  return db.transaction(async (tx) => {
    if (!(await lockEmail(tx, ref))) return null;
    const values = [projectId, environment, id, newId()];
    const [row] = await tx.query<Cancellation>(CANCEL, values);
    return row ?? null;
  });
}

/**
 * An email counts as sent once any recipient was attempted or has ended, except suppressed ones. Its lifetime keeps
 * its length.
 */
const RESCHEDULE = `
with t as materialized (select app_now() as now),
free as materialized (
  select q.position from queue q
   where q.project_id = $1 and q.email_id = $3 and ${IS_FREE} and not q.in_doubt
     and q.attempts = 0
     for update
),
present as materialized (
  select e.scheduled_at is not distinct from $5::timestamptz as is_same,
         $5::timestamptz > t.now + interval '${SCHEDULE_DAYS_MAX} days' as is_too_far,
         e.open_count > 0 and e.open_count = (select count(*) from free)
         and not exists (select from recipients r
                          where r.project_id = $1 and r.email_id = $3
                            and (r.attempts > 0
                                 or r.status not in ('scheduled', 'queued', 'suppressed'))) as is_here,
         greatest(t.now, $5::timestamptz) as starts_at,
         greatest(t.now, $5::timestamptz) + (e.expires_at - coalesce(e.scheduled_at, e.created_at))
           as expires_at,
         case when $5::timestamptz > t.now then 'scheduled' else 'queued' end as status
    from t, emails e
   where e.project_id = $1 and e.environment = $2 and e.id = $3
),
change as materialized (
  select * from present where is_here and not is_same and not is_too_far
),
moved as (
  update recipients r set status = c.status, next_attempt_at = c.starts_at
    from change c, free f
   where r.project_id = $1 and r.email_id = $3 and r.position = f.position
),
requeued as (
  update queue q set due_at = case when q.held then c.expires_at else c.starts_at end
    from change c, free f
   where q.project_id = $1 and q.email_id = $3 and q.position = f.position
),
counted as (
  update emails e
     set scheduled_at = c.starts_at, expires_at = c.expires_at, event_count = e.event_count + 1,
         last_event = 'email.' || c.status
    from change c
   where e.project_id = $1 and e.environment = $2 and e.id = $3
  returning e.event_count
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, c.event_count, $4, 'email.' || x.status, t.now,
         ${eventData(RESCHEDULED)}
    from t, counted c, change x
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS}
select case when not p.is_here then 'left' when p.is_too_far then 'too_far'
            when p.is_same then 'same' else 'moved' end as kind, ${UNCANCELABLE_COUNTS}
  from present p`;

/** `same`: it already had this time. */
export type Rescheduling = UncancelableCounts & { kind: 'moved' | 'same' | 'left' | 'too_far' };

/**
 * Changes the time of an email. A time in the past means now.
 * @returns null when the email does not exist for the caller
 */
export function rescheduleEmail(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
  scheduledAt: Date,
): Promise<Rescheduling | null> {
  const { projectId, environment, id } = ref;
  return db.transaction(async (tx) => {
    if (!(await lockEmail(tx, ref))) return null;
    const values = [projectId, environment, id, newId(), scheduledAt];
    const [row] = await tx.query<Rescheduling>(RESCHEDULE, values);
    return row ?? null;
  });
}
