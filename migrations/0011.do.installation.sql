-- What holds for the whole installation: all nodes on this database.

-- `return_path_host` is where the bounces of all sending domains are received, the same on every
-- node; null until a node has started with a proper LETTERHAUS_HOSTNAME. `schema_required` is the
-- newest migration that running code has to know: a migration raises it before another one takes
-- away what older code needs, and older nodes end in order (CONTRIBUTING.md, "Changing the schema").
create table installation (
  only_row         boolean primary key default true check (only_row),
  return_path_host text,
  is_chosen        boolean not null default false, -- set by a command: no start changes it
  schema_required  integer not null default 0
);
insert into installation default values;

-- The machines that mail is sent from, one row per data directory, with the name and the addresses
-- that they report. A row that was not updated for a week is ignored.
create table mail_hosts (
  instance   uuid primary key,
  name       text not null,
  source_ips text[] not null,
  seen_at    timestamptz not null
);

-- Which secret keys the installation has used, and which ones each node knows: a rotation goes on
-- only when every node is ready for its next step. Ids only; the keys are never in the database.
create table secret_keys (
  id            text primary key,
  current_since timestamptz not null
);

-- The first of `keys` seals and signs, all of them open and verify. By installation (nodes.instance).
create table known_secret_keys (
  instance uuid primary key,
  keys     text[] not null,
  noted_at timestamptz not null
);
