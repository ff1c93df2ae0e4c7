-- Mail to the operator about conditions (store/operator-mail.ts). The wanted address is here, and not only in the
-- configuration, so that whoever records a condition queues its mail in the same statement.

create table operator_mail (
  only_row boolean primary key default true check (only_row),
  address  text not null
);

-- Beginnings and ends of conditions that no accepted mail has reported yet.
create table operator_mail_queue (
  event_id uuid primary key,
  kind     text not null,          -- the type of the condition
  subject  text not null,
  state    text not null check (state in ('raised', 'cleared')),
  message  text not null,
  remedy   text,
  since    timestamptz not null,
  at       timestamptz not null,
  mail_id  uuid                    -- of the planned mail that reports it; null: none is planned
);

-- When mail was last planned: at most one for each kind an hour.
create table operator_mailed (
  kind text primary key,
  at   timestamptz not null
);
