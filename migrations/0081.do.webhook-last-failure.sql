-- Webhooks show the last failed attempt since their last success. Null until the next failure.
alter table webhook_endpoints add column last_failure jsonb;
