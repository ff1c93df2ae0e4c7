-- A limit counts emails, and an email has up to 50 recipients: these count as well. In the row of
-- the sending limit, which accepting locks and writes anyway. Null where the default holds.
alter table limit_windows
  add column recipients_max        integer,
  add column recipients_window_s   integer,
  add column recipients_started_at timestamptz not null default '-infinity',
  add column recipients_used       integer not null default 0;
