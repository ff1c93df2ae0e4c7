-- Refusals because of one of our addresses, or of a sending domain, by provider (store/provider-blocks.ts). From some
-- refusals in a row on, the provider blocks the subject, and its mail waits for a probe. A row that nothing has refused
-- for a week is deleted.
create table provider_blocks (
  provider      text collate "C" not null,
  about         text not null check (about in ('address', 'domain')),
  subject       text not null,        -- our address, or the host name of the machine; the sending domain
  refusals      integer not null,     -- since the last delivery
  is_clear      boolean not null,     -- one of them named the subject
  senders       text[] not null,      -- the sending domains that were refused
  category      text not null,
  reply         text not null,        -- the last one
  since         timestamptz,          -- blocked since then; null: not blocked
  wait_ms       float8 not null,      -- between the last probe and the next
  next_probe_at timestamptz,
  probing_until timestamptz,          -- a message is the probe, until then at the latest
  refused_at    timestamptz not null,
  changed_at    timestamptz not null,
  primary key (provider, about, subject)
);
create index provider_blocks_changed on provider_blocks (changed_at);
create index provider_blocks_open on provider_blocks (since) where since is not null;
