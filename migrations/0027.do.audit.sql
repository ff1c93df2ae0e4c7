-- Who changed what (store/audit.ts): by members in the dashboard, by API keys where it concerns access and
-- sending, and by commands that give access. The names are those of that time. No contents.

create table audit_log (
  organization_id uuid not null,
  id              uuid not null,
  created_at      timestamptz not null,
  action          text not null, -- the name of the operation
  actor_type      text not null check (actor_type in ('member', 'api_key', 'command')),
  actor_id        uuid,
  actor_name      text,
  project_id      uuid,
  environment     text,
  target          text,          -- the id of what was changed; of a suppression the address
  network         text,          -- without what names a person
  request_id      uuid,
  primary key (organization_id, id)
);
create index audit_log_by_time on audit_log (created_at);
