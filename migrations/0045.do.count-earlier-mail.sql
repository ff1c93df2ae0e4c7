-- Mail that was stored before 0041 is not in the totals of stored mail. Maintenance adds it in batches
-- (store/earlier-storage.ts) and keeps its place here; the row goes when all is counted. An installation that began
-- with 0041 has nothing to count and loses the row at once.
create table storage_earlier (
  only_row    boolean primary key default true check (only_row),
  before      timestamptz not null, -- mail that was accepted earlier is not counted yet
  project_id  uuid default '00000000-0000-0000-0000-000000000000',
  environment text not null default '',
  email_id    uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into storage_earlier (before)
select coalesce((select min(run_at) from schema_migrations where version >= 41), now());
