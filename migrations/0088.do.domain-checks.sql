-- The results of checks of sending domains, for case files: a row for each result that differs from the one before it.
-- Older code neither reads nor writes it.
create table domain_checks (
  project_id       uuid not null,
  domain_id        uuid not null,
  first_checked_at timestamptz(3) not null,
  last_checked_at  timestamptz(3) not null, -- the last check in a row with this result
  result           jsonb not null,
  primary key (project_id, domain_id, first_checked_at)
);
