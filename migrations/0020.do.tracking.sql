-- Tracking of opens and clicks: what domains ask for, the links of an email, and counters of what was stored.

-- For emails that do not set it themselves.
alter table domains
  add column track_opens boolean not null default false,
  add column track_clicks boolean not null default false;

-- What is tracked and the base of the links, as opens+clicks:https://links.acme.com; null: nothing.
alter table contents add column tracking text;

-- Events stored of this recipient, which are limited; null: none.
alter table recipients
  add column opens smallint,
  add column clicks smallint;
