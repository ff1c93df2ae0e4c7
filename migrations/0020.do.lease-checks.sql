-- Counted up by whoever wants a worker to compare what it holds by this table with what it knows of
-- (`posthorn queue retry`); the worker reads it with its next beat.
alter table nodes add column checks_asked integer not null default 0;
