-- Every domain costs a key and a check a day: how many a project may have in each environment (null: as
-- many as is configured), and how fast it may add them.
alter table projects add column domains_max integer check (domains_max > 0);
alter table limit_windows
  drop constraint limit_windows_category_check,
  add constraint limit_windows_category_check
    check (category in ('sending', 'verification', 'domains'));
