-- Counts of what became of mail, by hour and by day (store/stats.ts).

-- What accepting, settling, canceling and tracking add to the counts, inserted by their own statements:
-- appending never waits for another worker, as adding to a shared row would. Maintenance removes the rows
-- every few seconds and adds them to `stats`. The table is as large as a few seconds' worth, and all of it
-- is dead soon, so vacuum starts after a number of rows.
create table stats_deltas (
  project_id    uuid not null,
  environment   text not null,
  at            timestamptz not null,
  what          text not null,  -- accepted, opened, clicked, or the status that was reached
  domain        text not null,  -- of the sender
  key_id        uuid,
  provider      text,           -- null or empty: not known
  tags          jsonb not null, -- as emails.tags
  latency_class smallint,       -- of deliveries: place among the bounds of core/stats.ts
  emails        integer not null default 0,
  recipients    integer not null,
  suppressed    integer not null default 0 -- of those accepted
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
create index stats_deltas_by_project on stats_deltas (project_id, environment);

-- A row for each value of a dimension ('' of the total) in an hour or a day (UTC) in which something was
-- counted. `*` is what exceeds the number of values that are kept apart.
create table stats (
  project_id  uuid not null references projects,
  environment text not null,
  granularity text not null check (granularity in ('hour', 'day')),
  dimension   text not null check (dimension in ('total', 'domain', 'provider', 'tag', 'key')),
  period      timestamptz not null, -- when it begins
  value       text not null,
  emails      integer not null,
  recipients  integer not null,
  sent        integer not null,
  delivered   integer not null,
  deferred    integer not null,
  bounced     integer not null,
  failed      integer not null,
  suppressed  integer not null,
  canceled    integer not null,
  complained  integer not null,
  opened      integer not null,
  clicked     integer not null,
  latencies   integer[] not null, -- deliveries by latency class
  primary key (project_id, environment, granularity, dimension, period, value)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
create index stats_by_period on stats (granularity, period);

-- The provider of the last attempt, for what comes back later; null until a recipient has ended. When a
-- person first opened it or clicked, as far as it is tracked.
alter table recipients
  add column provider text,
  add column opened_at timestamptz,
  add column clicked_at timestamptz;
