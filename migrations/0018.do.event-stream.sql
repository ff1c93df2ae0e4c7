-- The order in which events are read as a stream (store/event-stream.ts): era, transaction, email,
-- number within the email.

-- Transactions are counted by the database system. An era ends when the data is restored into another
-- system, whose count begins anew: the migration that finds another `system_id` raises the era of new
-- events (store/postgres/event-order.ts).
alter table events add column xact_era smallint not null default 0;
alter table installation add column xact_era smallint not null default 0,
                         add column system_id text;

-- `only`: an index of all partitions would lock out writers while it is built. Partitions that are made
-- from now on have it, the maintenance builds it for the others, one by one.
-- Project and environment are hidden in a function: as plain columns they would make the index usable
-- for reading one email's events, which then reads all of a project.
create index events_by_commit on only events
  (hashtextextended(environment, uuid_hash_extended(project_id, 0)), xact_era, xact_id, subject_id, seq);

-- Which history of transactions the database has: its system and its timeline, which changes with every
-- fail-over; '' where the server does not say.
create function database_history() returns text language plpgsql stable as
$$ begin
  return (select system_identifier from pg_control_system()) || '/'
         || left(pg_walfile_name(pg_current_wal_lsn()), 8);
exception when others then
  return '';
end $$;

-- The oldest transaction that still runs in this database, prepared ones included: below it nothing
-- is added to the stream any more. Transactions of other databases of the server write no events. One
-- that ended since the snapshot counts as running: the next call is past it.
create function stream_horizon() returns xid8 language sql stable as
$$
  with running as materialized (
    select x as id from pg_snapshot_xip(pg_current_snapshot()) x
  ),
  elsewhere as materialized (
    select l.transactionid as id from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
       and exists (select from running)
       and a.datid <> (select oid from pg_database where datname = current_database())
    union all
    select p.transaction from pg_prepared_xacts p
     where exists (select from running) and p.database <> current_database()
  )
  select coalesce((select r.id from running r
                    where not exists (select from elsewhere e where e.id = r.id::xid)
                    order by r.id limit 1),
                  pg_snapshot_xmax(pg_current_snapshot()))
$$;
