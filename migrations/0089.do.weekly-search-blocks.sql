-- The index of searches for parts of words, again, with other terms for each week: a search reads the newest weeks
-- first and stops at a full page, whatever is older. Maintenance fills it from the stored mail. Older code keeps using
-- `search_blocks`, which it fills again; a search compares mail without blocks one by one.
create table weekly_search_blocks (
  project_id  uuid not null,
  environment text not null,
  first_id    uuid not null, -- the oldest email of the block
  last_id     uuid not null, -- its time is in the week of the terms
  terms       int[] not null,
  primary key (project_id, environment, last_id)
) with (toast_tuple_target = 128);
-- Numbers without a pattern, apart from the rows: see 0077.
alter table weekly_search_blocks alter terms set storage external;
create index weekly_search_blocks_by_terms on weekly_search_blocks
  using gin (terms) with (gin_pending_list_limit = 1024);

truncate search_blocks;
