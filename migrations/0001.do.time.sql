-- The time that all SQL works with.

-- Every statement takes the time from app_now(). Only tests set the skew, so that schedules, limits
-- and expiry are tested without waiting.
create table clock (
  only_row boolean primary key default true check (only_row),
  skew     interval not null default '0'
);
insert into clock default values;

create function app_now() returns timestamptz language plpgsql stable as
$$ begin return now() + (select skew from clock); end $$;

-- Times in JSON: ISO 8601, UTC, milliseconds.
create function wire_time(at timestamptz) returns text language sql immutable parallel safe as
$$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;
