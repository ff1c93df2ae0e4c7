/**
 * Counts once the mail that was stored before projects had a maximum (migration 0041). It works in batches in the
 * order of the primary key of emails; `storage_earlier` stores the position. A batch and its position are one
 * statement, so each email counts once, even when the process dies or several machines do it. The row is deleted
 * with the last batch.
 *
 * An email counts with its remaining rows: its content may have been deleted.
 */
import { RECIPIENT_BYTES } from './stored-bytes.ts';
import type { Queryable } from '../../database/database.ts';

/** Postgres knows these lengths without reading the values. */
const BYTES = `
       (select count(*) from recipients where recipients.project_id = email.project_id
        and recipients.email_id = email.id) * ${RECIPIENT_BYTES}
       + octet_length(email.tags::text) + octet_length(email.metadata::text)
       + coalesce((select coalesce(octet_length(contents.html), 0)
                          + coalesce(octet_length(contents.large_html), 0)
                          + coalesce(octet_length(contents.body_text), 0)
                          + coalesce(octet_length(contents.raw), 0)
                          + coalesce(pg_column_size(contents.attachments), 0)
                          + coalesce(pg_column_size(contents.headers), 0)
                     from contents where contents.project_id = email.project_id
                       and contents.email_id = email.id), 0)`;

// The batch is not joined with the position, so Postgres reads it in index order, however much mail there is.
// While another machine has the row, `skip locked` leaves nothing to do. Mail that arrived after `before` is
// already counted, and passed over.
const COUNT = `
with place as materialized (
  select * from storage_earlier for update skip locked
),
batch as materialized (
  select email.project_id, email.environment, email.id, email.created_at, email.scheduled_at, email.tags,
         email.metadata
    from emails email
   where (email.project_id, email.environment, email.id)
         > ((select project_id from place), (select environment from place), (select email_id from place))
   order by email.project_id, email.environment, email.id
   limit $1
),
counted as materialized (
  select email.project_id, (greatest(email.created_at, email.scheduled_at) at time zone 'UTC')::date as day,
         sum(${BYTES})::bigint as bytes
    from batch email, place
   where email.created_at < place.before
   group by 1, 2
),
total as (
  insert into storage (project_id, bytes)
  select project_id, sum(bytes)::bigint from counted group by 1
  on conflict (project_id) do update set bytes = storage.bytes + excluded.bytes
),
days as (
  insert into storage_days (project_id, day, bytes)
  select project_id, day, bytes from counted
  on conflict (project_id, day) do update set bytes = storage_days.bytes + excluded.bytes
),
last as (
  select project_id, environment, id from batch order by project_id desc, environment desc, id desc limit 1
),
moved as (
  update storage_earlier set project_id = last.project_id, environment = last.environment, email_id = last.id
    from last
),
ended as (
  delete from storage_earlier where exists (select from place) and not exists (select from batch)
)
select count(*)::int as passed from batch`;

/** Counts a batch. @returns the emails it passed; 0 when all are counted, or while another machine counts them */
export async function countEarlierMail(db: Queryable, limit: number): Promise<number> {
  return (await db.query<{ passed: number }>(COUNT, [limit]))[0]?.passed ?? 0;
}
