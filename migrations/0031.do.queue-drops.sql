-- Drops of waiting mail that can still be undone (store/queue-drops.ts): what was selected, how far it is
-- marked, and when it is dropped. In the database, so that a restart neither forgets a drop nor hastens it.
-- A row is deleted when its drop was carried out or undone.

create table queue_drops (
  id              uuid primary key,
  organization_id uuid not null,
  project_id      uuid,        -- null: all of the organization
  environment     text,        -- null: both
  email_id        uuid,
  destination     text,
  provider        text,
  last_email_id   uuid not null, -- what is accepted later is not dropped
  next_email_id   uuid,        -- where the next step begins to mark; null: all is marked
  next_position   smallint,
  found           integer not null default 0,
  busy            integer not null default 0,
  marked          integer not null default 0,
  created_at      timestamptz not null,
  drops_at        timestamptz not null,
  undone_at       timestamptz
);
create index queue_drops_by_organization on queue_drops (organization_id, id);

-- `drop_id`: it is held and will be dropped. `due_before`: when it was due before it was held for that; null:
-- it was held already.
alter table queue add column drop_id uuid, add column due_before timestamptz;
