-- Dry runs are limited, too. Not validated: all rows satisfied the constraint that this one widens.
alter table limit_windows drop constraint limit_windows_category;
alter table limit_windows add constraint limit_windows_category
  check (category in ('sending', 'verification', 'domains', 'webhooks', 'dry_runs')) not valid;
