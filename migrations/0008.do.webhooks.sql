-- Webhook endpoints, what is sent to them, and the queue of what has not been sent.

-- The row of a healthy endpoint is only read. `failures` counts the attempts since the last success;
-- `blocked_until` suspends an endpoint with an outage as a whole, whatever waits for it.
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
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index webhook_endpoints_by_scope on webhook_endpoints (project_id, environment, id);
create index webhook_endpoints_blocked on webhook_endpoints (blocked_until)
  where blocked_until is not null;

-- One row per event and endpoint; `webhook-id` on the wire is the event's id.
-- `log` holds the attempts: time, status, latency, the first 4 KB of the response.
-- Partitioned by week, by the time inside the UUIDv7, as emails are.
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
-- An endpoint's failed deliveries, to be listed and sent again: few among millions of delivered ones.
create index webhook_deliveries_failed on webhook_deliveries (project_id, endpoint_id, event_id)
  where status = 'failed';

-- Open deliveries only. `attempts` is the position in the retry schedule: a replay starts it anew.
-- Vacuum as for the queue of mail.
create table webhook_queue (
  project_id  uuid not null,
  endpoint_id uuid not null,
  event_id    uuid not null,
  attempts    integer not null default 0,
  due_at      timestamptz not null,
  holder      uuid,
  claim       integer not null default 0,
  primary key (event_id, endpoint_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
-- The first finds the endpoints with something due, the second an endpoint's oldest: 50,000 events
-- that wait for one endpoint with an outage are never walked over to reach those of the others.
-- `claim >= 0` is always true; only the search for endpoints has this condition, so that no claim
-- can be planned over that index.
create index webhook_queue_due on webhook_queue (due_at) where holder is null and claim >= 0;
create index webhook_queue_endpoint on webhook_queue (endpoint_id, due_at) where holder is null;
