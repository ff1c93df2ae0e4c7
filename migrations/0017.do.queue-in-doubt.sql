-- The worker that held the recipient died or lost it, so it may have been delivered to: it is tried
-- again, and until it has ended it cannot be canceled (store/schedule.ts).
alter table queue add column in_doubt boolean not null default false;
