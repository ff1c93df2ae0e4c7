-- Html and text are compressed in rows of more than 2 KB: a third of their disk and of their WAL, for 6 µs of CPU at
-- 2 KB. Longer html costs in proportion, so it is stored in a column of its own, uncompressed as before
-- (docs/decisions/0020-storage-of-an-email.md). Older code does not know that column, so it has to end.
alter table contents
  add column large_html text, -- of LARGE_HTML_BYTES (store/accept-statement.ts) or more; html is then null
  alter html set storage main,
  alter body_text set storage main;
alter table contents
  alter large_html set storage external;
update installation set schema_required = 26;

-- Partitions that were made before, also for the weeks ahead; what is stored in them stays as it is.
do $$
declare
  partition regclass;
begin
  for partition in
    select inhrelid from pg_inherits where inhparent = 'contents'::regclass and not inhdetachpending
  loop
    execute format('alter table %s reset (toast_tuple_target)', partition);
  end loop;
end
$$;
