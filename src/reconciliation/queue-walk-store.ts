/**
 * Walks over the whole queue for rows of recipients that have ended or do not exist. Their days are checked again
 * (reconciliation-store.ts), and that check names the difference. Each step is one statement, in the order of the
 * queue's key. One process walks once a day.
 */
import { OPEN_STATUSES } from '../core/statuses.ts';
import type { Queryable } from '../database/database.ts';
import type { ProjectDay } from './reconciliation-store.ts';
import { QUEUE_START, type QueueCursor } from '../delivery/queue-control/change-store.ts';

const OPEN = OPEN_STATUSES.map((status) => `'${status}'`).join();

/** Another process repeats a walk that died after this time. */
const CLAIM_WALK = `
update reconciliation set queue_walk_at = app_now() + interval '1 hour'
 where queue_walk_at <= app_now() or $1
returning 1`;

/** @param isRequested walk even if it is not due */
export async function claimQueueWalk(db: Queryable, isRequested = false): Promise<boolean> {
  return (await db.query(CLAIM_WALK, [isRequested])).length > 0;
}

export async function saveQueueWalked(db: Queryable): Promise<void> {
  await db.query(`update reconciliation set queue_walk_at = app_now() + interval '1 day'`);
}

const STEP_ROWS = 1_000;

/** The time in the email's id, for a row without an email. */
const ID_TIME = `
to_timestamp(('x' || left(replace(seen.email_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)`;

const STEP = `
with seen as materialized (
  select queue.project_id, queue.email_id, queue.position, queue.environment from queue
   where (queue.project_id, queue.email_id, queue.position) > ($1::uuid, $2::uuid, $3::smallint)
   order by queue.project_id, queue.email_id, queue.position
   limit ${STEP_ROWS}
),
strays as (
  select distinct seen.project_id, (coalesce(emails.created_at, ${ID_TIME}) at time zone 'UTC')::date as day
    from seen
    left join lateral (
      select recipients.status from recipients
       where recipients.project_id = seen.project_id and recipients.email_id = seen.email_id
         and recipients.position = seen.position
       limit 1) recipients on true
    left join lateral (
      select emails.created_at from emails
       where emails.project_id = seen.project_id and emails.environment = seen.environment
         and emails.id = seen.email_id
       limit 1) emails on true
   where recipients.status is null or recipients.status not in (${OPEN}) or emails.created_at is null
)
select count(*)::int as passed,
       (select json_build_object('projectId', seen.project_id, 'emailId', seen.email_id, 'position', seen.position)
          from seen order by seen.project_id desc, seen.email_id desc, seen.position desc limit 1) as last,
       (select coalesce(json_agg(json_build_object('projectId', strays.project_id, 'day', strays.day)), '[]')
          from strays join projects on projects.id = strays.project_id) as days
  from seen`;

export type QueueWalkStep = {
  /** Days whose queue rows contradict their recipients. */
  days: ProjectDay[];
  /** null after the last step. */
  next: QueueCursor | null;
};

export async function walkQueueStep(
  db: Queryable,
  from: QueueCursor = QUEUE_START,
): Promise<QueueWalkStep> {
  type Row = { passed: number; last: QueueCursor; days: ProjectDay[] };
  const [row] = await db.query<Row>(STEP, [from.projectId, from.emailId, from.position]);
  if (!row) throw new Error('a step over the queue returned nothing');
  return { days: row.days, next: row.passed < STEP_ROWS ? null : row.last };
}
