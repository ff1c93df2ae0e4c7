-- Unmatched mail: what comes in by SMTP and changes nothing. Anybody may send it, so it has a table of
-- fixed size: a ring of eight segments. When the present one is full the oldest is truncated and
-- becomes the present one. TRUNCATE gives the space back at once, with no vacuum to wait for.

create table inbound_unmatched (
  slot           smallint not null,
  id             uuid not null, -- UUIDv7: in the order of their coming
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

-- One row: the present segment, and how much was put into it.
create table unmatched_ring (
  slot  smallint not null,
  bytes bigint not null
);
create unique index unmatched_ring_one on unmatched_ring ((true));
insert into unmatched_ring values (0, 0);

-- Takes room for that many bytes, and makes it when the present segment is full. Its lock is held until
-- the caller commits: one at a time over all nodes. In the rights of the owner, because the service's own role
-- may not truncate. Null: a reader (pg_dump, say) holds the oldest segment, or many are writing.
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
