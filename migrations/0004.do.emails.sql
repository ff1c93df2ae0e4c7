-- The email and what belongs to it. Partitioned by week, by the time inside the UUIDv7 (the code
-- makes the partitions ahead). No foreign keys between them: old weeks are detached as a whole.

-- What lists and status need. `open_count`, `worst` and `event_count` are counters that change
-- under the row's lock; the status is never recomputed from the recipients in the same statement.
create table emails (
  project_id   uuid not null,
  environment  text not null,
  id           uuid not null,
  created_at   timestamptz not null,
  scheduled_at timestamptz,
  expires_at   timestamptz not null,
  sent_at      timestamptz,
  completed_at timestamptz,
  domain_id    uuid not null,
  dual_signed  boolean not null, -- Ed25519 beside RSA: fixed at accept, so every attempt signs alike
  key_id       uuid,
  from_address text not null,
  from_name    text,
  to_list      text[] not null,
  cc_list      text[] not null,
  bcc_list     text[] not null,
  reply_to     text[] not null,
  subject      text not null,
  message_id   text,             -- null: made from the id
  tags         jsonb not null,
  metadata     jsonb not null,
  open_count   smallint not null check (open_count >= 0),
  worst        smallint not null,
  event_count  integer not null,
  last_event   text not null,
  primary key (project_id, environment, id)
) partition by range (id);

-- What only composing the message needs. Stored uncompressed: compressing 20 KB costs more CPU than
-- everything else that the database does for an email.
-- `body_text` null: derived from the html; '': no text part. `raw`: a message submitted by SMTP,
-- whole but for our signatures; html, text, headers and attachments are then null.
create table contents (
  project_id      uuid not null,
  email_id        uuid not null,
  html            text,
  body_text       text,
  headers         json,
  attachments     json,
  raw             bytea,
  unsubscribe_url text,
  tls             text,
  primary key (project_id, email_id)
) partition by range (email_id);
-- `storage` in a column definition needs PostgreSQL 16.
alter table contents
  alter html set storage external,
  alter body_text set storage external,
  alter attachments set storage external,
  alter raw set storage external;

create table recipients (
  project_id      uuid not null,
  email_id        uuid not null,
  position        smallint not null,
  address         text not null,
  kind            text not null check (kind in ('to', 'cc', 'bcc')),
  status          text not null,
  attempts        integer not null default 0,
  next_attempt_at timestamptz,
  completed_at    timestamptz,
  reason          json,
  smtp            json,
  primary key (project_id, email_id, position)
) partition by range (email_id);
-- The emails of a recipient in the order of their ids, those of one project together: a page of a
-- list ends after its rows, however many there are. Both columns are hidden in functions: as plain
-- columns they would make the index usable for settling, which then reads all of a project for each
-- recipient (1.2 ms instead of 0.05).
create index recipients_by_address on recipients
  (hashtextextended(project_id::text || lower(address collate "C"), 0), uuid_send(email_id));

-- One row per change. `subject_id` is the email; for events about something else (a domain, a
-- suppression) it is the event's own id, which puts the event into the right week.
-- `data` is the `data` of the webhook, byte for byte; `attempt` is the transcript, for the timeline.
-- `xact_id` orders events by commit for readers that follow the stream.
create table events (
  project_id  uuid not null,
  environment text not null,
  subject_id  uuid not null,
  seq         integer not null,
  id          uuid not null,
  type        text not null,
  position    smallint,
  created_at  timestamptz not null,
  data        json not null,
  attempt     json,
  xact_id     xid8 not null default pg_current_xact_id(),
  primary key (project_id, subject_id, seq)
) partition by range (subject_id);

-- The response to a request with an idempotency key, for 24 hours, in the transaction of its email.
-- Every day there are as many dead rows as live ones, so vacuum starts after a number of them.
create table idempotency (
  project_id  uuid not null,
  environment text not null,
  key         text not null,
  fingerprint bytea not null,
  email_id    uuid not null,
  response    text not null,
  expires_at  timestamptz not null,
  primary key (project_id, environment, key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
create index idempotency_by_expiry on idempotency (expires_at);

-- The allowed changes of a recipient's status; its rows are written by the code that migrates.
create table status_transitions (
  from_status text not null,
  to_status   text not null,
  primary key (from_status, to_status)
);
