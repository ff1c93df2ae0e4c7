-- Fair turns: the lane is the unit of turn and trouble, the provider once it is known, else the
-- destination. `held` keeps a recipient from being claimed until an operator releases it; its due
-- time is then the time at which it expires, so that forgotten mail ends too.
alter table queue add column lane text collate "C";
update queue set lane = destination;
alter table queue alter column lane set not null;
alter table queue add column held boolean not null default false;

-- A lane's oldest, and from one lane and project to the next, in one probe each: what waits for a
-- dead provider is never walked over to reach the others'. What an accept hands over has a holder
-- and enters neither index. `claim >= 0` is always true; only the walk in order of due times says
-- it, so that no claim of a lane can be planned over that index.
create index queue_lane on queue (project_id, lane, due_at) where holder is null;
drop index queue_due;
create index queue_due on queue (due_at) where holder is null and claim >= 0;
