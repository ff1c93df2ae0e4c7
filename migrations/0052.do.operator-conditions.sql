-- What an operator has to look at now (store/operator-conditions.ts): one row for each open condition. Its beginning
-- and its end are events of the operator's project, so the history of a condition is in `events`.

create table operator_conditions (
  type      text not null,
  subject   text not null,        -- a provider, a domain, a machine, …
  since     timestamptz not null,
  last_seen timestamptz not null,
  lapses_at timestamptz,          -- ends by itself then, unless it is reported again; null: never
  message   text not null,
  remedy    text not null,
  details   jsonb not null,
  primary key (type, subject)
);
