/**
 * Cancels and reschedules an accepted email before it is sent.
 *
 * Guarantee: a recipient is canceled only while no worker has leased it, and is not delivered afterwards. Each change
 * is one transaction. It locks the email, like settling, and then its free queue rows. Claims skip locked rows, and
 * an earlier claim keeps its rows. A row that was reclaimed from a dead worker is `in_doubt`: that worker may have
 * sent the final dot, so the recipient is not free either.
 */
import type { Database, Queryable } from '../database/database.ts';
import { ANY_STATE, entityTagOf } from '../core/entity-tag.ts';
import { SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import { STATUS_RANK } from '../core/statuses.ts';
import type { EmailRef } from './email-store.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { newId } from '../database/ids.ts';
import { IS_FREE } from '../delivery/queue/queue-store.ts';
import { COUNT_CANCELED } from '../stats/stats-store.ts';

/** $4 and $5 are the key and the domain that the caller is restricted to. */
const LOCK = `
select scheduled_at as "scheduledAt", coalesce(scheduled_at > app_now(), false) as "isAhead" from emails
 where project_id = $1 and environment = $2 and id = $3 and ($4::uuid is null or key_id = $4)
   and ($5::text is null or right(from_address, length($5) + 1) = '@' || $5)
   for update`;

type Scheduled = { id: string; scheduledAt: Date | null };

/** `isAhead`: its scheduled time has not come, so no recipient was attempted. */
type Locked = Scheduled & { isAhead: boolean };

/** Changes with the scheduled time, which is all that a request can replace. */
export function tagOfEmail({ id, scheduledAt }: Scheduled): string {
  return entityTagOf({ id, scheduledAt });
}

/** Locks first, so that the next statement sees changes that committed while this one waited. */
async function lockEmail(tx: Queryable, ref: EmailRef): Promise<Locked | null> {
  const { projectId, environment, id, keyId, domain } = ref;
  const values = [projectId, environment, id, keyId, domain];
  const [row] = await tx.query<Omit<Locked, 'id'>>(LOCK, values);
  return row === undefined ? null : { id, ...row };
}

const CANCELED = `jsonb_build_object('status', 'canceled', 'recipients', change.recipients)`;
const RESCHEDULED = `jsonb_build_object('status', change.status, 'scheduled_at', wire_time(change.starts_at))`;

const eventData = (added: string): string => `
         (select (events.data::jsonb - 'scheduled_at' || ${added})::json from events
           where events.project_id = $1 and events.environment = $2 and events.subject_id = $3
             and events.seq = 1)`;

const UNCANCELABLE_COUNTS = `
       (select count(*) from queue
         where queue.project_id = $1 and queue.email_id = $3 and queue.holder is not null)::int as sending,
       (select count(*) from queue
         where queue.project_id = $1 and queue.email_id = $3 and ${IS_FREE}
           and queue.in_doubt)::int as "inDoubt"`;

const CANCEL = `
with clock as materialized (select app_now() as now),
free as materialized (
  select queue.position from queue
   where queue.project_id = $1 and queue.email_id = $3 and ${IS_FREE} and not queue.in_doubt
     for update
),
canceled as (
  update recipients
     set status = 'canceled', reason = null, next_attempt_at = null, completed_at = clock.now
    from clock, free, status_transitions
   where recipients.project_id = $1 and recipients.email_id = $3 and recipients.position = free.position
     and status_transitions.from_status = recipients.status and status_transitions.to_status = 'canceled'
  returning recipients.position, recipients.address
),
change as materialized (
  select count(*)::smallint as count, json_agg(address order by position) as recipients
    from canceled
),
removed as (
  delete from queue using canceled
   where queue.project_id = $1 and queue.email_id = $3 and queue.position = canceled.position
),
counted as (
  update emails
     set open_count = emails.open_count - change.count, event_count = emails.event_count + 1,
         worst = greatest(emails.worst, ${STATUS_RANK.canceled}), last_event = 'email.canceled',
         completed_at = case when emails.open_count = change.count then clock.now else emails.completed_at end
    from clock, change
   where emails.project_id = $1 and emails.environment = $2 and emails.id = $3 and change.count > 0
  returning emails.project_id, emails.environment, emails.from_address, emails.key_id, emails.tags,
            emails.template_id, emails.event_count
),${COUNT_CANCELED},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, counted.event_count, $4, 'email.canceled', clock.now,
         ${eventData(CANCELED)}
    from clock, counted, change
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

/**
 * Cancels the free recipients of an email.
 * @returns null when the email does not exist for the caller
 */
export function cancelEmail(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
): Promise<Cancellation | null> {
  return cancelLocked(db, ref, () => true);
}

/** Does the same, but leaves an email whose scheduled time has come meanwhile: it may be deferred or half delivered. */
export function cancelIfAhead(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
): Promise<Cancellation | null> {
  return cancelLocked(db, ref, ({ isAhead }) => isAhead);
}

function cancelLocked(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
  isWanted: (email: Locked) => boolean,
): Promise<Cancellation | null> {
  const { projectId, environment, id } = ref;
  return db.transaction(async (tx) => {
    const locked = await lockEmail(tx, ref);
    if (locked === null || !isWanted(locked)) return null;
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
with clock as materialized (select app_now() as now),
free as materialized (
  select queue.position from queue
   where queue.project_id = $1 and queue.email_id = $3 and ${IS_FREE} and not queue.in_doubt
     and queue.attempts = 0
     for update
),
present as materialized (
  select emails.scheduled_at is not distinct from $5::timestamptz as is_same,
         $5::timestamptz > clock.now + interval '${SCHEDULE_DAYS_MAX} days' as is_too_far,
         emails.open_count > 0 and emails.open_count = (select count(*) from free)
         and not exists (select from recipients
                          where recipients.project_id = $1 and recipients.email_id = $3
                            and (recipients.attempts > 0
                                 or recipients.status not in ('scheduled', 'queued', 'suppressed'))) as is_here,
         greatest(clock.now, $5::timestamptz) as starts_at,
         greatest(clock.now, $5::timestamptz) + (emails.expires_at - coalesce(emails.scheduled_at, emails.created_at))
           as expires_at,
         case when $5::timestamptz > clock.now then 'scheduled' else 'queued' end as status
    from clock, emails
   where emails.project_id = $1 and emails.environment = $2 and emails.id = $3
),
change as materialized (
  select * from present where is_here and not is_same and not is_too_far
),
moved as (
  update recipients set status = change.status, next_attempt_at = change.starts_at
    from change, free
   where recipients.project_id = $1 and recipients.email_id = $3 and recipients.position = free.position
),
requeued as (
  update queue set due_at = case when queue.held then change.expires_at else change.starts_at end
    from change, free
   where queue.project_id = $1 and queue.email_id = $3 and queue.position = free.position
),
counted as (
  update emails
     set scheduled_at = change.starts_at, expires_at = change.expires_at,
         event_count = emails.event_count + 1, last_event = 'email.' || change.status
    from change
   where emails.project_id = $1 and emails.environment = $2 and emails.id = $3
  returning emails.event_count
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, counted.event_count, $4, 'email.' || change.status, clock.now,
         ${eventData(RESCHEDULED)}
    from clock, counted, change
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS}
select case when not present.is_here then 'left' when present.is_too_far then 'too_far'
            when present.is_same then 'same' else 'moved' end as kind, ${UNCANCELABLE_COUNTS}
  from present`;

/** `same`: it already had this time. `unexpected`: it has another time than the caller has read. */
export type Rescheduling =
  | (UncancelableCounts & { kind: 'moved' | 'same' | 'left' | 'too_far' })
  | { kind: 'unexpected' };

/**
 * Changes the time of an email. A time in the past means now.
 * @returns null when the email does not exist for the caller
 */
export function rescheduleEmail(
  db: Pick<Database, 'transaction'>,
  ref: EmailRef,
  scheduledAt: Date,
  isExpected = ANY_STATE,
): Promise<Rescheduling | null> {
  const { projectId, environment, id } = ref;
  return db.transaction(async (tx) => {
    const locked = await lockEmail(tx, ref);
    if (locked === null) return null;
    if (!isExpected(tagOfEmail(locked))) return { kind: 'unexpected' };
    const values = [projectId, environment, id, newId(), scheduledAt];
    const [row] = await tx.query<Rescheduling>(RESCHEDULE, values);
    return row ?? null;
  });
}
