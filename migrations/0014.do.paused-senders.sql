-- A sending domain whose mail waits until somebody lets it go, because too much of it came back
-- (guard_trips). What is accepted meanwhile is held from the start; what waits already is held when
-- it is claimed. `passes_pause`: an operator has released it, and it is not held again.
alter table domains add column paused_at timestamptz;
alter table queue add column passes_pause boolean not null default false;
alter table guard_trips add column paused boolean not null default false;
