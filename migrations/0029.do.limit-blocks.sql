-- Parts of a large sending limit that are set aside for one accept statement at a time (store/limit-blocks.ts).
-- Like limit_windows: few rows, updated many times a second, without touching the index.
create table limit_blocks (
  project_id            uuid not null references projects,
  environment           text not null,
  slot                  smallint not null,
  made_at               timestamptz not null,
  -- Of the windows and limits for which it was filled.
  started_at            timestamptz not null default '-infinity',
  recipients_started_at timestamptz not null default '-infinity',
  limits                integer[] not null default '{}',
  -- Each is for one email with one recipient, counted as used in limit_windows.
  permits               integer not null default 0 check (permits >= 0),
  primary key (project_id, environment, slot)
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- The statements for projects without blocks leave alone a project that has them.
alter table limit_windows add column has_blocks boolean not null default false;
