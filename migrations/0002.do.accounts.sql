-- Organizations own projects; projects have two environments, their API keys and their limits.
-- Everything that a customer owns has project_id as the first column of its key, so that a
-- distributed PostgreSQL could later split by it.

create table organizations (
  id         uuid primary key,
  name       text not null,
  created_at timestamptz not null
);

-- Null in what follows `created_at`: the configured value holds.
-- Retention: mail may be kept for less time than LETTERHAUS_RETENTION_* says; maintenance deletes what
-- is older in small batches. Domains: each costs a key pair and a check a day.
create table projects (
  id                   uuid primary key,
  organization_id      uuid not null references organizations,
  name                 text not null,
  created_at           timestamptz not null,
  retention_content_h  integer check (retention_content_h >= 24),
  retention_metadata_h integer check (retention_metadata_h >= 24),
  domains_max          integer check (domains_max > 0), -- in each environment
  constraint content_goes_first check (retention_content_h <= retention_metadata_h)
);
create index projects_by_organization on projects (organization_id, id);

-- A key is stored as the SHA-256 of its text: 190 random bits need no slow hash.
create table api_keys (
  project_id   uuid not null references projects,
  id           uuid not null,
  environment  text not null check (environment in ('live', 'test')),
  name         text not null,
  sha256       bytea not null unique,
  hint         text not null,
  permission   text not null check (permission in ('full_access', 'sending_access')),
  domain       text,
  created_at   timestamptz not null,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  primary key (project_id, id)
);

-- Fixed windows per project and environment. A null maximum or window is the configured one. The
-- accept statement locks these rows, which makes a limit exact over all nodes. An email has up to
-- 50 recipients: these are counted in the row of the sending limit, which accepting writes anyway.
-- There are few rows, updated many times a second. Updates touch no index, so pages are pruned
-- without vacuum as long as they have room; vacuum runs often for what a long snapshot kept.
create table limit_windows (
  project_id            uuid not null references projects,
  environment           text not null,
  category              text not null check (category in ('sending', 'verification', 'domains')),
  max                   integer,
  window_s              integer,
  started_at            timestamptz not null default '-infinity',
  used                  integer not null default 0,
  recipients_max        integer,
  recipients_window_s   integer,
  recipients_started_at timestamptz not null default '-infinity',
  recipients_used       integer not null default 0,
  primary key (project_id, environment, category)
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- Failed authentications per client address. Unlogged: losing the counts lets a client try again
-- earlier, and costs nothing else.
create unlogged table auth_windows (
  client     text primary key,
  started_at timestamptz not null,
  used       integer not null
);
