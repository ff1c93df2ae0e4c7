-- Counts of mail by template and by reason of a refusal (src/stats/stats-store.ts), and findings that members snoozed.

-- The template of the request, also after the template was deleted. Null: the request had its own content.
alter table emails add column template_id uuid;

alter table stats_deltas
  add column template_id uuid,
  add column reason text; -- category of a deferral or bounce, else null

alter table stats drop constraint stats_dimension_check;
alter table stats add constraint stats_dimension_check
  check (dimension in ('total', 'domain', 'provider', 'tag', 'key', 'template', 'reason')) not valid;

-- Findings of the overview that a member snoozed for all members of the project. `finding` is what the dashboard
-- computes from its object, like `webhook.failing:<id>`.
create table finding_snoozes (
  project_id  uuid not null references projects,
  environment text not null check (environment in ('live', 'test')),
  finding     text not null,
  until       timestamptz not null,
  member_id   uuid not null,
  created_at  timestamptz not null,
  primary key (project_id, environment, finding)
);
