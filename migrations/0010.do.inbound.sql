-- What came back by SMTP: bounces, complaints, other reports, and letters to postmaster@ and the like.

-- One row per message and recipient of its envelope. `report_hash` makes a report count once, however
-- often it is sent. `project_id` and what follows are null where it belongs to no email of ours;
-- `change` is the status that it brought a recipient to. `content` is its beginning.
create table inbound_messages (
  id             uuid primary key, -- UUIDv7: in the order of their coming
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

-- A return path names a domain and no project.
create index domains_by_name_alone on domains (name);
