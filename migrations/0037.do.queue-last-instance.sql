-- The node of the last attempt, which makes the next one if it can: greylisting expects the same address.
-- Null: not tried yet, or tried by an older build.
alter table queue add column last_instance uuid;
