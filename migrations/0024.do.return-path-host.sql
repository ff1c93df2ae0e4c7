-- Where the bounces of all sending domains come back to, the same whichever node is asked; null until
-- a node has started with a proper POSTHORN_HOSTNAME.
create table installation (
  only_row         boolean primary key default true check (only_row),
  return_path_host text,
  is_chosen        boolean not null default false -- by a command: no start changes it
);
insert into installation default values;

-- The machines that mail leaves from, one row per data directory, with the name and the addresses that
-- they say of themselves. What was not seen for a week counts no more.
create table mail_hosts (
  instance   uuid primary key,
  name       text not null,
  source_ips text[] not null,
  seen_at    timestamptz not null
);
