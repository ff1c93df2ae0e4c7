-- Templates of emails. The newest version of each is a draft until it is published; a published one does
-- not change any more, so that workers keep it in memory.
create table templates (
  project_id        uuid not null references projects,
  environment       text not null,
  id                uuid not null,
  name              text not null,
  alias             text, -- what a request may name it by, instead of the id
  latest_version    integer not null,
  published_version integer, -- what emails are made of; null: nothing yet
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  primary key (project_id, id)
);
create index templates_by_scope on templates (project_id, environment, id);
create unique index templates_by_alias on templates (project_id, environment, alias)
  where alias is not null;

create table template_versions (
  project_id   uuid not null,
  template_id  uuid not null,
  version      integer not null,
  subject      text not null,
  html         text,
  text         text,
  variables    jsonb not null, -- [{name, type, default}]
  created_at   timestamptz not null,
  published_at timestamptz, -- when it first was; null: a draft
  primary key (project_id, template_id, version),
  foreign key (project_id, template_id) references templates on delete cascade
);
