-- Requests that failed, and changes, of all callers with a key or session, kept for a week
-- (store/api-requests.ts). The primary key serves the list, the index the deletion.
create table api_requests (
  project_id    uuid not null,
  environment   text not null,
  id            uuid not null, -- X-Request-Id
  created_at    timestamptz not null,
  -- Who asked: one of the two.
  key_id        uuid,
  member_id     uuid,
  method        text not null,
  path          text not null,
  status        smallint not null,
  duration_ms   integer not null,
  network       text not null,
  user_agent    text,
  error_code    text,
  error_message text,
  body          text, -- an outline, JSON (http/body-outline.ts)
  primary key (project_id, environment, id)
);
create index api_requests_by_time on api_requests (created_at);
