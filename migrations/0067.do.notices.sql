-- Notices about delivery that the sender of a submitted message asks for (RFC 3461; store/notices.ts).

-- What the envelope asks for (src/mail/dsn-parameters.ts); null: nothing. Also marks the notices themselves.
alter table contents add column dsn json;

-- One for each kind and recipient. A row is kept after its notice was accepted, so that none is sent twice.
create table notices (
  project_id  uuid not null references projects,
  environment text not null,
  email_id    uuid not null,
  position    smallint not null,
  kind        text not null check (kind in ('success', 'failure', 'delay')),
  facts       json not null,
  created_at  timestamptz not null,
  due_at      timestamptz,          -- null: it was accepted, or nobody may get it
  primary key (project_id, email_id, position, kind)
);
create index notices_due on notices (due_at) where due_at is not null;
create index notices_by_time on notices (created_at);
