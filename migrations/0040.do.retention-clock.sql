-- What the removal of old data has to know of its earlier runs (store/retention-clock.ts): after the clock has
-- jumped nothing is removed for a day, and of many weeks that are due at once only a few a day. All
-- times by app_now(). Older code removes without it.
create table retention_clock (
  only_row        boolean primary key default true check (only_row),
  ran_at          timestamptz,
  -- The last jump, of so many seconds (negative: back); null when it was more than a day ago.
  held_since      timestamptz,
  moved_s         double precision not null default 0,
  -- Weeks that were removed since then: at most a day is counted together.
  spent           integer not null default 0,
  spent_since     timestamptz,
  -- The first days of weeks that are due and wait.
  waiting         text[] not null default '{}',
  -- An operator has confirmed what is due (letterhaus retention confirm).
  confirmed_until timestamptz
);
insert into retention_clock default values;
