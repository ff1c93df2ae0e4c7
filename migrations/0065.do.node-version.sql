-- What `letterhaus upgrade-check` shows: the version that each worker runs, and when the last backup was made by
-- `letterhaus backup`, on any node. Null: an earlier version, no backup.
alter table nodes add column version text;
alter table installation add column last_backup_at timestamptz,
                         add column last_backup_place text;
