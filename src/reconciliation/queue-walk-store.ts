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
to_timestamp(('x' || left(replace(q.email_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)`;

const STEP = `
with seen as materialized (
  select q.project_id, q.email_id, q.position, q.environment from queue q
   where (q.project_id, q.email_id, q.position) > ($1::uuid, $2::uuid, $3::smallint)
   order by q.project_id, q.email_id, q.position
   limit ${STEP_ROWS}
),
strays as (
  select distinct q.project_id, (coalesce(e.created_at, ${ID_TIME}) at time zone 'UTC')::date as day
    from seen q
    left join lateral (
      select r.status from recipients r
       where r.project_id = q.project_id and r.email_id = q.email_id and r.position = q.position
       limit 1) r on true
    left join lateral (
      select e.created_at from emails e
       where e.project_id = q.project_id and e.environment = q.environment and e.id = q.email_id
       limit 1) e on true
   where r.status is null or r.status not in (${OPEN}) or e.created_at is null
)
select count(*)::int as passed,
       (select json_build_object('projectId', s.project_id, 'emailId', s.email_id, 'position', s.position)
          from seen s order by s.project_id desc, s.email_id desc, s.position desc limit 1) as last,
       (select coalesce(json_agg(json_build_object('projectId', s.project_id, 'day', s.day)), '[]')
          from strays s join projects p on p.id = s.project_id) as days
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
