-- The daily proof that no accepted mail is missing (store/reconciliation.ts).

-- A project's mail of one day (UTC) of acceptance: what was found at the last check. `checked_at` null: it was not
-- checked, because it waits for that or because the retention removed it before. `next_check_at` null: it is not
-- checked again, because it is complete or was removed.
create table reconciled_days (
  project_id      uuid not null references projects,
  day             date not null,
  next_check_at   timestamptz,
  checked_at      timestamptz,
  emails          integer not null default 0,
  recipients      integer not null default 0,
  statuses        jsonb not null default '{}', -- recipients by status, those that have not ended as `open`
  differences     jsonb not null default '[]', -- core/reconciliation.ts
  acknowledged_at timestamptz,                 -- an operator knows these differences
  primary key (project_id, day)
) with (fillfactor = 70);
create index reconciled_days_due on reconciled_days (next_check_at) where next_check_at is not null;
create index reconciled_days_by_day on reconciled_days (day);
create index reconciled_days_differing on reconciled_days (day)
  where differences <> '[]' and acknowledged_at is null;

-- The first day that is compared with the counters, the last one whose projects are in `reconciled_days`, when the
-- queue was or will be walked over, and when everything that was due had been checked. An installation that has mail
-- already begins with the day after: its earlier mail may not be counted, or may be removed.
create table reconciliation (
  only_row      boolean primary key default true check (only_row),
  first_day     date not null,
  through       date not null,
  queue_walk_at timestamptz not null default '-infinity',
  finished_at   timestamptz
);
insert into reconciliation (first_day, through)
select s.first_day, s.first_day - 1
  from (select (app_now() at time zone 'UTC')::date
               + (exists (select from emails) or exists (select from stats))::int as first_day) s;

-- Mail that was accepted before has been removed, or is being removed, at least in part; null: nothing was.
alter table projects add column mail_removed_before timestamptz;
alter table retention_clock add column mail_removed_before timestamptz; -- whole weeks of all projects
