-- Who may do what: organizations own projects, projects have two environments and their keys.
-- Everything a customer owns carries project_id first in its key, so that a distributed PostgreSQL
-- could later split by it.

create table organizations (
  id         uuid primary key,
  name       text not null,
  created_at timestamptz not null
);

create table projects (
  id              uuid primary key,
  organization_id uuid not null references organizations,
  name            text not null,
  created_at      timestamptz not null
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

-- Fixed windows per project and environment. `max` and `window_s` are null where the configured
-- default holds. The accept statement locks these rows: that makes the limit exact over all nodes.
create table limit_windows (
  project_id  uuid not null references projects,
  environment text not null,
  category    text not null check (category in ('sending', 'verification')),
  max         integer,
  window_s    integer,
  started_at  timestamptz not null default '-infinity',
  used        integer not null default 0,
  primary key (project_id, environment, category)
) with (fillfactor = 50);

-- Failed authentications per client address. Losing this table would only forgive: unlogged.
create unlogged table auth_windows (
  client     text primary key,
  started_at timestamptz not null,
  used       integer not null
);

-- All SQL takes the time from app_now(). Only tests move the skew, so that schedules, limits and
-- expiry are tested without waiting.
create table clock (
  only_row boolean primary key default true check (only_row),
  skew     interval not null default '0'
);
insert into clock default values;

create function app_now() returns timestamptz language plpgsql stable as
$$ begin return now() + (select skew from clock); end $$;

-- Times on the wire: ISO 8601, UTC, milliseconds.
create function wire_time(at timestamptz) returns text language sql immutable parallel safe as
$$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;
