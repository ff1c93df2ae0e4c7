-- How a sender stands with those it writes to: what ended, bounced and complained in the last day, by
-- sending domain, and the warnings that follow from it (core/guard.ts). A row per hour; workers add to
-- it every few seconds (store/reputation-counters.ts), never while they settle an email.
create table reputation_counts (
  project_id  uuid not null references projects,
  environment text not null,
  domain      text not null,
  hour        timestamptz not null,
  ended       integer not null, -- recipients: delivered, sent, bounced or failed
  bounced     integer not null,
  complained  integer not null,
  changed_at  timestamptz not null,
  primary key (project_id, environment, domain, hour)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
create index reputation_counts_by_change on reputation_counts (changed_at);
create index reputation_counts_by_hour on reputation_counts (hour);

-- Where a project differs from the usual rule; null: as usual. Rates in millionths.
create table guards (
  project_id     uuid primary key references projects,
  is_on          boolean not null,
  bounces_ppm    integer check (bounces_ppm between 1 and 1000000),
  complaints_ppm integer check (complaints_ppm between 1 and 1000000),
  emails_min     integer check (emails_min between 1 and 1000000),
  pauses         boolean not null
);

-- What is beyond the rule at present.
create table guard_trips (
  project_id    uuid not null references projects,
  environment   text not null,
  domain        text not null,
  kind          text not null check (kind in ('bounce', 'complaint')),
  since         timestamptz not null,
  count         integer not null, -- bounced or complained, of `ended`, when it was looked at last
  ended         integer not null,
  threshold_ppm integer not null,
  below_since   timestamptz,      -- it has been clearly better for so long; null: it is not
  primary key (project_id, environment, domain, kind)
);
