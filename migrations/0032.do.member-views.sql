-- Searches that members keep by a name, each for themselves and for a project. Few: see VIEWS_MAX.
create table member_views (
  member_id  uuid not null references members on delete cascade,
  project_id uuid not null references projects,
  id         uuid not null,
  name       text not null,
  q          text not null,
  created_at timestamptz not null,
  primary key (member_id, project_id, id),
  unique (member_id, project_id, name)
);
