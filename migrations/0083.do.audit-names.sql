-- An entry of the audit log has the name of what was changed, also after that is deleted. Older entries have none. The
-- index finds the last change of an object. It is built here, because the log has an entry only for each change by a
-- person or a program, and none for each email.
alter table audit_log add column target_name text;
create index audit_log_by_target on audit_log (organization_id, target, id) where target is not null;
