-- Mail that is received by SMTP: bounces, complaints, other reports, and mail to postmaster@ and the
-- like.

-- What changed something. One row per message and recipient of its envelope. `report_hash` makes a
-- report count once, however often it is sent. `project_id` and what follows are null where it
-- belongs to no email of this installation; `change` is the status that it gave to a recipient.
-- `content` is the beginning of the message.
create table inbound_messages (
  id             uuid primary key, -- UUIDv7: in the order of arrival
  received_at    timestamptz not null,
  report_hash    bytea not null unique,
  remote_address text not null,
  sender         text not null,
  recipient      text not null,
  kind           text not null,
  project_id     uuid,
  environment    text,
  email_id       uuid,
  position       smallint,
  change         text,
  size_bytes     integer not null,
  content        bytea not null
);
create index inbound_messages_by_project on inbound_messages (project_id, id)
  where project_id is not null;

-- Unmatched mail: what changes nothing. Any sender can cause it, so it has a table of fixed size: a
-- ring of eight segments. When the present segment is full, the oldest is truncated and becomes the
-- present one. TRUNCATE gives the space back at once, with no vacuum to wait for.
create table inbound_unmatched (
  slot           smallint not null,
  id             uuid not null, -- UUIDv7: in the order of arrival
  received_at    timestamptz not null,
  report_hash    bytea not null,
  remote_address text not null,
  sender         text not null,
  recipient      text not null,
  kind           text not null,
  project_id     uuid,
  environment    text,
  email_id       uuid,
  position       smallint,
  size_bytes     integer not null,
  content        bytea not null
) partition by list (slot);
create table inbound_unmatched_0 partition of inbound_unmatched for values in (0);
create table inbound_unmatched_1 partition of inbound_unmatched for values in (1);
create table inbound_unmatched_2 partition of inbound_unmatched for values in (2);
create table inbound_unmatched_3 partition of inbound_unmatched for values in (3);
create table inbound_unmatched_4 partition of inbound_unmatched for values in (4);
create table inbound_unmatched_5 partition of inbound_unmatched for values in (5);
create table inbound_unmatched_6 partition of inbound_unmatched for values in (6);
create table inbound_unmatched_7 partition of inbound_unmatched for values in (7);
create index inbound_unmatched_by_id on inbound_unmatched (id);
create unique index inbound_unmatched_by_hash on inbound_unmatched (slot, report_hash);
create index inbound_unmatched_by_project on inbound_unmatched (project_id, id)
  where project_id is not null;

-- One row: the present segment, and the bytes that were put into it.
create table unmatched_ring (
  slot  smallint not null,
  bytes bigint not null
);
create unique index unmatched_ring_one on unmatched_ring ((true));
insert into unmatched_ring (slot, bytes) values (0, 0);

-- Reserves that many bytes, and moves on to the next segment when the present one is full. The lock
-- of the ring is held until the caller commits, so one transaction at a time writes, over all nodes.
-- Runs with the rights of the owner, because the service's own role may not truncate. Returns null
-- when the lock is not available within a second: a reader (pg_dump, say) holds the oldest segment,
-- or many are writing.
create function take_unmatched_room(new_bytes bigint, segment_bytes_max bigint) returns smallint
language plpgsql security definer set search_path from current set lock_timeout = '1s' as
$$
declare
  ring unmatched_ring;
begin
  select * into ring from unmatched_ring for update;
  if ring.bytes > 0 and ring.bytes + new_bytes > segment_bytes_max then
    ring.slot := (ring.slot + 1) % 8;
    ring.bytes := 0;
    execute format('truncate inbound_unmatched_%s', ring.slot);
  end if;
  update unmatched_ring set slot = ring.slot, bytes = ring.bytes + new_bytes;
  return ring.slot;
exception when lock_not_available then
  return null;
end
$$;
