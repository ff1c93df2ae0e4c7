-- The workers, and the queue of open deliveries.

-- One row per worker process. Another worker declares it dead when the beat has not changed for
-- 15 s of the other's own polls, so no clocks are compared. `instance` identifies the data directory
-- whose supervisor started the worker: that supervisor knows at once when its child exits.
-- `checks_asked` is incremented to make a worker compare its claims in the queue with the deliveries
-- that it knows (`letterhaus queue retry`); it reads it with its next beat. `schema_known` is the
-- newest migration that its code knows.
create table nodes (
  id           uuid primary key,
  instance     uuid not null,
  host         text not null,
  pid          integer not null,
  started_at   timestamptz not null,
  beat         bigint not null default 0,
  checks_asked integer not null default 0,
  schema_known integer not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- A row per recipient that has not ended. `provider` is the destination until the provider is known.
-- `holder` and `claim` fence every outcome: a write by any other than the present holder changes
-- nothing. There is no index on holder: only reclaiming needs it, and every accept and settle would
-- pay for it. `held`: not claimed until an operator releases it; its due time is then the time at
-- which it expires, so that held mail ends as well. `passes_pause`: an operator has released it, so
-- the pause of its domain does not hold it again.
--
-- Vacuum starts after a number of dead rows, not after a share of the table: a share of a million
-- waiting rows makes every claim walk over that many dead index entries. No cost delay: a vacuum
-- that sleeps does not keep up with 2,000 emails a second. No truncation: it needs a lock that every
-- accept would wait for, and the pages are used again. Inserts alone start no vacuum: the rows are
-- deleted within minutes.
create table queue (
  project_id   uuid not null,
  email_id     uuid not null,
  position     smallint not null,
  environment  text not null,
  destination  text not null,
  provider     text collate "C" not null,
  attempts     integer not null default 0,
  due_at       timestamptz not null,
  holder       uuid,
  claim        integer not null default 0,
  held         boolean not null default false,
  passes_pause boolean not null default false,
  primary key (email_id, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
-- One probe each finds the oldest row of a tenant queue (a project's mail at a provider), and the
-- next tenant queue: the rows that wait for a provider with an outage are never walked over. An
-- email that is claimed when it is accepted has a holder and enters neither index. `claim >= 0` is
-- always true; only the scan in order of due times has this condition, so that the planner cannot
-- use that index to claim the mail of one provider.
create index queue_provider on queue (project_id, provider, due_at) where holder is null;
create index queue_due on queue (due_at) where holder is null and claim >= 0;

-- What each worker knows of the providers that are busy or have an outage: for the dashboard and for
-- `letterhaus queue`. No other code reads it. Rows are deleted with those of their worker.
create table providers (
  node             uuid not null references nodes on delete cascade,
  provider         text not null, -- the destination while its provider is unknown
  state            text not null check (state in ('open', 'full', 'slowed', 'suspended')),
  reason           text,          -- one sentence
  until            timestamptz,   -- end of the suspension, or of the slower pace
  connections_max  integer not null, -- of the whole machine, at present
  connections_open integer not null, -- of this worker
  updated_at       timestamptz not null,
  primary key (node, provider)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
