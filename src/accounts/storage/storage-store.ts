/**
 * The bytes of stored mail per project and their maximum, so that one project cannot fill the disk for all.
 *
 * Workers reserve bytes before they accept (accounts/storage/storage-account.ts), for small emails in chunks, so the
 * accept statement counts nothing. A reservation locks the project's row of `storage`, which makes the maximum exact
 * across all workers. `storage_days` splits the total by the day from which retention counts: the day of acceptance,
 * or the scheduled day. The bytes of a day leave the total once retention has deleted the mail of that day.
 *
 * The total is an estimate. A killed worker leaves its unused chunks reserved until their day leaves the total. Mail
 * counts with the size of its message, without the savings of compression.
 */
import type { Retention } from '../../core/retention.ts';
import { WEEK_MS } from '../../database/partitions.ts';
import { HOUR_MS } from '../../lib/units.ts';
import type { Queryable } from '../../database/database.ts';
import { SHORT_RETENTION_H } from '../../retention/retention-store.ts';

export type StorageState = {
  usedBytes: number;
  /** null for no maximum. */
  maxBytes: number | null;
};

/** `day` in the form 2026-11-25. */
export type Reservation = { projectId: string; day: string; bytes: number };

const MAX = 'coalesce(projects.storage_bytes_max, installation.storage_bytes_max)';

/** A chunk is at most this fraction of a maximum, because several workers share the maximum. */
const CHUNKS_OF_MAX = 64;

const RESERVE = `
with most as materialized (
  select ${MAX} as bytes from projects, installation where projects.id = $1
),
wanted as materialized (
  select greatest($3::bigint, least($4::bigint, most.bytes / ${CHUNKS_OF_MAX})) as bytes from most
),
reserved as (
  insert into storage (project_id, bytes)
  select $1, wanted.bytes from wanted, most where wanted.bytes <= coalesce(most.bytes, wanted.bytes)
  on conflict (project_id) do update set bytes = storage.bytes + excluded.bytes
   where (select most.bytes is null or storage.bytes + excluded.bytes <= most.bytes from most)
  returning project_id
),
day as (
  insert into storage_days (project_id, day, bytes)
  select reserved.project_id, $2::date, wanted.bytes from reserved, wanted
  on conflict (project_id, day) do update set bytes = storage_days.bytes + excluded.bytes
)
select (select wanted.bytes from reserved, wanted) as bytes, most.bytes as "maxBytes",
       coalesce((select storage.bytes from storage where storage.project_id = $1), 0) as "usedBytes"
  from most`;

/**
 * Adds the bytes, or the chunk if that is more, to the project's total, if its maximum has space for them.
 * @returns the bytes added, 0 when there is no space, and the total before
 */
export async function reserveStorage(
  db: Queryable,
  { projectId, day, bytes }: Reservation,
  chunkBytes: number,
): Promise<{ bytes: number; usedBytes: number; maxBytes: number }> {
  type Row = StorageState & { bytes: number | null };
  const [row] = await db.query<Row>(RESERVE, [projectId, day, bytes, chunkBytes]);
  if (!row) throw new Error('the project was not returned');
  return { bytes: row.bytes ?? 0, usedBytes: row.usedBytes, maxBytes: row.maxBytes ?? Infinity };
}

const RELEASE = `
with total as (
  update storage set bytes = greatest(0, bytes - $3::bigint) where project_id = $1 returning project_id
)
update storage_days set bytes = greatest(0, storage_days.bytes - $3)
  from total where storage_days.project_id = total.project_id and storage_days.day = $2::date`;

export async function releaseStorage(
  db: Queryable,
  { projectId, day, bytes }: Reservation,
): Promise<void> {
  await db.query(RELEASE, [projectId, day, bytes]);
}

const READ = `
select coalesce(storage.bytes, 0) as "usedBytes", ${MAX} as "maxBytes"
  from projects cross join installation
  left join storage on storage.project_id = projects.id
 where projects.id = $1`;

export async function readStorage(db: Queryable, projectId: string): Promise<StorageState> {
  const [row] = await db.query<StorageState>(READ, [projectId]);
  return row ?? { usedBytes: 0, maxBytes: null };
}

const LIST = `
select projects.id as "projectId", projects.name, coalesce(storage.bytes, 0) as "usedBytes",
       ${MAX} as "maxBytes"
  from projects cross join installation
  left join storage on storage.project_id = projects.id
 order by projects.id`;

export type ProjectStorage = StorageState & { projectId: string; name: string };

export function listStorage(db: Queryable): Promise<ProjectStorage[]> {
  return db.query<ProjectStorage>(LIST);
}

/** Sets the project's maximum; null restores the default of the installation. */
export async function setStorageMax(
  db: Queryable,
  projectId: string,
  bytes: number | null,
): Promise<void> {
  await db.query('update projects set storage_bytes_max = $2 where id = $1', [projectId, bytes]);
}

const SET_DEFAULT = `
update installation set storage_bytes_max = $1::bigint
 where storage_bytes_max is distinct from $1::bigint`;

/** Sets the maximum of projects without their own; null for no maximum. */
export async function setStorageDefault(db: Queryable, bytes: number | null): Promise<void> {
  await db.query(SET_DEFAULT, [bytes]);
}

// Retention deletes whole weeks of all projects a week after their first day is due, and single emails at once
// (retention/retention-store.ts).
const SUBTRACT_DELETED = `
with kept as (
  select projects.id, kept.hours, case when kept.hours < least(coalesce($1::int, $2), coalesce($2::int, $1))
                               or kept.hours < ${SHORT_RETENTION_H} then 0 else ${WEEK_MS / HOUR_MS} end
                                 as more_hours
    from projects
   cross join lateral (select least(projects.retention_content_h, projects.retention_metadata_h, $1, $2)
                       as hours) kept
   where kept.hours is not null
),
gone as (
  delete from storage_days using kept
   where storage_days.project_id = kept.id
     and storage_days.day + 1 < app_now() - (kept.hours + kept.more_hours) * interval '1 hour'
  returning storage_days.project_id, storage_days.bytes
)
update storage set bytes = greatest(0, storage.bytes - sums.bytes)
  from (select project_id, sum(bytes)::bigint as bytes from gone group by 1) sums
 where storage.project_id = sums.project_id`;

/** Subtracts the days whose content retention has deleted from the totals. */
export async function subtractDeletedMail(
  db: Queryable,
  { contentH, metadataH }: Retention,
): Promise<void> {
  await db.query(SUBTRACT_DELETED, [contentH, metadataH]);
}
