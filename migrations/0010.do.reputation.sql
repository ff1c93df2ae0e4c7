-- Bounce and complaint rates by sending domain, and the alerts that follow from them.

-- Recipients that ended, bounced or complained, a row per hour. Workers add to it every few seconds,
-- never while they settle an email.
create table reputation_counts (
  project_id  uuid not null references projects,
  environment text not null,
  domain      text not null,
  hour        timestamptz not null,
  ended       integer not null, -- delivered, sent, bounced or failed
  bounced     integer not null,
  complained  integer not null,
  changed_at  timestamptz not null,
  primary key (project_id, environment, domain, hour)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
create index reputation_counts_by_change on reputation_counts (changed_at);
create index reputation_counts_by_hour on reputation_counts (hour);

-- A project's own rule for alerts; null: the configured value. Rates in millionths.
create table reputation_rules (
  project_id     uuid primary key references projects,
  is_on          boolean not null,
  bounces_ppm    integer check (bounces_ppm between 1 and 1000000),
  complaints_ppm integer check (complaints_ppm between 1 and 1000000),
  emails_min     integer check (emails_min between 1 and 1000000),
  pauses         boolean not null
);

-- The alerts at present.
create table reputation_alerts (
  project_id    uuid not null references projects,
  environment   text not null,
  domain        text not null,
  kind          text not null check (kind in ('bounce', 'complaint')),
  since         timestamptz not null,
  count         integer not null, -- bounced or complained, of `ended`, at the last check
  ended         integer not null,
  threshold_ppm integer not null,
  below_since   timestamptz,      -- the rate has been well below the threshold since then
  paused        boolean not null default false, -- this alert paused the domain
  primary key (project_id, environment, domain, kind)
);
