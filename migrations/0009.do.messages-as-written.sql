-- Messages that come in by SMTP and go on as they were written.

-- The message's own; null: made from the id.
alter table emails add column message_id text;

-- The whole message but for our signatures; html, text, headers and attachments are then null.
alter table contents add column raw bytea;
alter table contents alter column raw set storage external;
