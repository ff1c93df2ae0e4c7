-- The newest migration that running code has to know: a migration raises it before what older code
-- cannot work with, and older nodes end in order (CONTRIBUTING.md, "Changing the schema").
alter table installation add column schema_required integer not null default 0;

-- The newest migration that the code of a worker knows.
alter table nodes add column schema_known integer not null default 0;
