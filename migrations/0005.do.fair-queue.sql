-- Fair turns: the provider is the unit of turn and trouble, the provider once it is known, else the
-- destination. `held` keeps a recipient from being claimed until an operator releases it; its due
-- time is then the time at which it expires, so that forgotten mail ends too.
alter table queue add column provider text collate "C";
update queue set provider = destination;
alter table queue alter column provider set not null;
alter table queue add column held boolean not null default false;

-- A provider's oldest, and from one provider and project to the next, in one probe each: what waits for a
-- dead provider is never walked over to reach the others'. What an accept hands over has a holder
-- and enters neither index. `claim >= 0` is always true; only the walk in order of due times says
-- it, so that no claim of a provider can be planned over that index.
create index queue_provider on queue (project_id, provider, due_at) where holder is null;
drop index queue_due;
create index queue_due on queue (due_at) where holder is null and claim >= 0;
