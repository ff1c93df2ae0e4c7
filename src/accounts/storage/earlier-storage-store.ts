/**
 * Counts once the mail that was stored before projects had a maximum (migration 0041). It works in batches in the
 * order of the primary key of emails; `storage_earlier` stores the position. A batch and its position are one
 * statement, so each email counts once, even when the process dies or several machines do it. The row is deleted
 * with the last batch.
 *
 * An email counts with what is left of it: its content may have been deleted.
 */
import { RECIPIENT_BYTES } from './stored-bytes.ts';
import type { Queryable } from '../../database/database.ts';

/** Postgres knows these lengths without reading the values. */
const BYTES = `
       (select count(*) from recipients r where r.project_id = e.project_id and r.email_id = e.id) * ${RECIPIENT_BYTES}
       + octet_length(e.tags::text) + octet_length(e.metadata::text)
       + coalesce((select coalesce(octet_length(c.html), 0) + coalesce(octet_length(c.large_html), 0)
                          + coalesce(octet_length(c.body_text), 0) + coalesce(octet_length(c.raw), 0)
                          + coalesce(pg_column_size(c.attachments), 0) + coalesce(pg_column_size(c.headers), 0)
                     from contents c where c.project_id = e.project_id and c.email_id = e.id), 0)`;

// The batch is not joined with the position, so Postgres reads it in index order, however much mail there is.
// While another machine has the row, `skip locked` leaves nothing to do. Mail that arrived after `before` is
// already counted, and passed over.
const COUNT = `
with place as materialized (
  select * from storage_earlier for update skip locked
),
batch as materialized (
  select e.project_id, e.environment, e.id, e.created_at, e.scheduled_at, e.tags, e.metadata
    from emails e
   where (e.project_id, e.environment, e.id)
         > ((select project_id from place), (select environment from place), (select email_id from place))
   order by e.project_id, e.environment, e.id
   limit $1
),
counted as materialized (
  select e.project_id, (greatest(e.created_at, e.scheduled_at) at time zone 'UTC')::date as day,
         sum(${BYTES})::bigint as bytes
    from batch e, place
   where e.created_at < place.before
   group by 1, 2
),
total as (
  insert into storage as s (project_id, bytes)
  select project_id, sum(bytes)::bigint from counted group by 1
  on conflict (project_id) do update set bytes = s.bytes + excluded.bytes
),
days as (
  insert into storage_days as d (project_id, day, bytes)
  select project_id, day, bytes from counted
  on conflict (project_id, day) do update set bytes = d.bytes + excluded.bytes
),
last as (
  select project_id, environment, id from batch order by project_id desc, environment desc, id desc limit 1
),
moved as (
  update storage_earlier p set project_id = l.project_id, environment = l.environment, email_id = l.id
    from last l
),
ended as (
  delete from storage_earlier where exists (select from place) and not exists (select from batch)
)
select count(*)::int as passed from batch`;

/** Counts a batch. @returns the emails it passed; 0 when all are counted, or while another machine counts them */
export async function countEarlierMail(db: Queryable, limit: number): Promise<number> {
  return (await db.query<{ passed: number }>(COUNT, [limit]))[0]?.passed ?? 0;
}
