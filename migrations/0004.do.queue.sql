-- The queue holds open work only: a row per recipient that has not ended.

-- One row per worker process. A survivor declares a worker dead when it has seen its beat unchanged
-- through 15 s of its own polls; nobody compares clocks. `instance` names the data directory whose
-- supervisor started it: that one knows at once when its child dies.
create table nodes (
  id         uuid primary key,
  instance   uuid not null,
  host       text not null,
  pid        integer not null,
  started_at timestamptz not null,
  beat       bigint not null default 0
) with (fillfactor = 50);

-- `holder` and `claim` fence every outcome: a write by anybody but the present holder does nothing.
-- There is no index on holder: only a takeover needs it, and every accept and settle would pay.
create table queue (
  project_id  uuid not null,
  email_id    uuid not null,
  position    smallint not null,
  environment text not null,
  destination text not null,
  attempts    integer not null default 0,
  due_at      timestamptz not null,
  holder      uuid,
  claim       integer not null default 0,
  primary key (email_id, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
create index queue_due on queue (due_at) where holder is null;

-- A healthy endpoint's row is only read. `failures` counts the attempts since the last success;
-- `blocked_until` lets an endpoint in trouble rest as a whole, whatever waits for it.
create table webhook_endpoints (
  project_id                 uuid not null references projects,
  environment                text not null,
  id                         uuid not null,
  url                        text not null,
  events                     text[], -- null: all
  status                     text not null check (status in ('enabled', 'disabled')),
  disabled_reason            text,
  secret                     bytea not null, -- AES-256-GCM with the endpoint's id as AAD
  previous_secret            bytea,
  previous_secret_expires_at timestamptz,
  failures                   integer not null default 0,
  failing_since              timestamptz,
  blocked_until              timestamptz,
  created_at                 timestamptz not null,
  primary key (project_id, id)
);
create index webhook_endpoints_by_scope on webhook_endpoints (project_id, environment, id);
create index webhook_endpoints_blocked on webhook_endpoints (blocked_until)
  where blocked_until is not null;

-- What is told to whom. The event's id is the delivery's id and the webhook-id on the wire.
-- `log` holds the attempts: time, status, latency, the first 4 KB of the answer.
create table webhook_deliveries (
  project_id   uuid not null,
  environment  text not null,
  endpoint_id  uuid not null,
  event_id     uuid not null,
  subject_id   uuid not null,
  seq          integer not null,
  type         text not null,
  status       text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts     integer not null default 0,
  created_at   timestamptz not null,
  completed_at timestamptz,
  log          jsonb not null default '[]',
  primary key (project_id, endpoint_id, event_id)
) partition by range (event_id);

-- Open work only. `attempts` is the place in the retry schedule: a replay starts it anew.
create table webhook_queue (
  project_id  uuid not null,
  endpoint_id uuid not null,
  event_id    uuid not null,
  attempts    integer not null default 0,
  due_at      timestamptz not null,
  holder      uuid,
  claim       integer not null default 0,
  primary key (event_id, endpoint_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
-- The first finds the endpoints with something due, the second an endpoint's oldest: 50 000 events
-- that wait for a dead endpoint are never walked over to reach the others'. `claim >= 0` is always
-- true; only the search for endpoints says it, so that no claim can be planned over that index.
create index webhook_queue_due on webhook_queue (due_at) where holder is null and claim >= 0;
create index webhook_queue_provider on webhook_queue (endpoint_id, due_at) where holder is null;
