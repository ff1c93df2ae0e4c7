-- What the root mount needs: the shape in which an endpoint gets its events, suppressions by the id that
-- clients know them by (store/suppressions.ts), and a log of requests.

alter table webhook_endpoints
  add column payload_format text not null default 'letterhaus'
    check (payload_format in ('letterhaus', 'resend'));

-- Of one expression, so that no other statement can be planned over it.
create index suppressions_by_id on suppressions
  ((md5(address_key) || project_id::text || environment));

-- Requests to the root mount, kept for days (store/request-log.ts). No bodies, queries or keys. The
-- primary key serves the list, the index the deletion.
create table request_log (
  project_id  uuid not null,
  environment text not null,
  id          uuid not null, -- X-Request-Id
  created_at  timestamptz not null,
  method      text not null,
  endpoint    text not null, -- the path
  status      smallint not null,
  user_agent  text,
  primary key (project_id, environment, id)
);
create index request_log_by_time on request_log (created_at);
