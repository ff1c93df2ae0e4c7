-- What each worker knows of the receivers that it sends to and that are busy or in trouble: for
-- people and for `posthorn queue`. Nothing depends on it; a row goes with its worker's.
create table providers (
  node             uuid not null references nodes on delete cascade,
  provider             text not null, -- the provider, or the destination while its provider is unknown
  state            text not null check (state in ('open', 'full', 'slowed', 'suspended')),
  reason           text,          -- one sentence; null: nothing to say
  until            timestamptz,   -- end of the suspension, or of being slowed
  connections_max  integer not null, -- of the whole machine, at present
  connections_open integer not null, -- of this worker
  updated_at       timestamptz not null,
  primary key (node, provider)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
