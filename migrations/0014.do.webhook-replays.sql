-- Replays of a time range, in steps: deliveries up to `after_event` are queued. A step and its cursor
-- commit together, so that a replay goes on where it was after a crash, on any node.
create table webhook_replays (
  project_id      uuid not null references projects,
  environment     text not null,
  endpoint_id     uuid not null,
  id              uuid not null,
  since           timestamptz not null,
  until           timestamptz not null,
  delivery_status text, -- null: all
  status          text not null check (status in ('running', 'completed', 'canceled')),
  total           integer not null,
  queued          integer not null default 0,
  after_event     uuid,
  stepped_at      timestamptz not null,
  created_at      timestamptz not null,
  completed_at    timestamptz,
  primary key (project_id, id)
);
-- One at a time for each endpoint; the workers look here for what there is to do.
create unique index webhook_replays_running on webhook_replays (endpoint_id)
  where status = 'running';
create index webhook_replays_ended on webhook_replays (completed_at) where status <> 'running';
