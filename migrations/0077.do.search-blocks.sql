-- The index of searches for parts of words: the terms of 16 emails in a row (emails/list/search-terms.ts). Maintenance
-- fills it, for stored mail as well. Older code neither reads nor writes it.
create table search_blocks (
  project_id  uuid not null,
  environment text not null,
  first_id    uuid not null, -- the oldest email of the block
  last_id     uuid not null,
  terms       int[] not null,
  primary key (project_id, environment, last_id)
  -- The terms are read only to write the index, so they stand apart: a search of a frequent word then reads the rows
  -- of ten million emails in 50 MB instead of a gigabyte.
) with (toast_tuple_target = 128);
-- Numbers without a pattern: compressing them costs time and saves nothing.
alter table search_blocks alter terms set storage external;
create index search_blocks_by_terms on search_blocks using gin (terms) with (gin_pending_list_limit = 1024);
