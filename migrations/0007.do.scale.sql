-- What keeps a year of mail as cheap as a week of it.

-- A project may keep its mail for less time than the installation does (POSTHORN_RETENTION_*);
-- null: as long as the installation. store/retention.ts removes what is older in small batches.
alter table projects
  add column retention_content_h  integer check (retention_content_h >= 24),
  add column retention_metadata_h integer check (retention_metadata_h >= 24),
  add constraint content_goes_first check (retention_content_h <= retention_metadata_h);

-- The hot tables are vacuumed after a number of dead rows, not after a share of the table: a share
-- of a million waiting rows is a long walk over dead index entries for every claim. No cost limit:
-- a slept vacuum loses against 2,000 emails a second. `vacuum_truncate` stays off: giving back the
-- end of the file needs a lock that every accept would wait for, and the pages are used again.
-- Inserts alone make nothing worth a vacuum here: the rows leave again within minutes.
alter table queue set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
alter table webhook_queue set (autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 50000);

-- A row per keyed request that leaves after 24 hours: as many dead rows as live ones every day.
alter table idempotency set (autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- A handful of rows, updated many times a second. Their updates touch no index, so pages clean
-- themselves as long as there is room in them; vacuum comes often for what a long snapshot kept.
alter table limit_windows set (fillfactor = 30, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
alter table nodes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
alter table webhook_endpoints set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Looked up with explicit bytes: under another collation than the index's the address was no key,
-- and every claim read all of a project's suppressions.
alter table suppressions alter column address_key type text collate "C";

-- The emails of a recipient in the order of their ids, one project's together: a page of a list ends
-- after its rows, however many there are. Both columns are hidden in functions: as themselves they
-- would offer the index to settling, which then walked a whole project for each recipient.
drop index recipients_by_address;
create index recipients_by_address on recipients
  (hashtextextended(project_id::text || lower(address collate "C"), 0), uuid_send(email_id));
