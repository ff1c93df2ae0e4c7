-- Tests and replays of webhooks are limited, too.
alter table limit_windows drop constraint limit_windows_category_check;
alter table limit_windows add constraint limit_windows_category
  check (category in ('sending', 'verification', 'domains', 'webhooks')) not valid;
