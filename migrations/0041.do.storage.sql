-- Bytes of stored mail per project (store/storage.ts): the total, which is compared with the maximum, and its parts
-- by the day from which the retention counts, which leave the total when that mail is deleted. Few rows, often updated.
create table storage (
  project_id uuid primary key references projects,
  bytes      bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

create table storage_days (
  project_id uuid not null references projects,
  day        date not null,
  bytes      bigint not null,
  primary key (project_id, day)
) with (fillfactor = 70);

-- Null: the default of the installation, which maintenance writes there; null there: no maximum.
alter table projects add column storage_bytes_max bigint check (storage_bytes_max > 0);
alter table installation add column storage_bytes_max bigint check (storage_bytes_max > 0);
