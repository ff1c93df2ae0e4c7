-- Addresses that get no mail, and how they came to that.

-- `address_key` is the whole address in lower case. Collation "C" as in the lookups: under another
-- collation than the index's the address is no index key, and every claim reads all of a project's
-- suppressions.
create table suppressions (
  project_id      uuid not null references projects,
  environment     text not null,
  address_key     text collate "C" not null,
  address         text not null,
  reason          text not null check (reason in ('hard_bounce', 'complaint', 'unsubscribe', 'manual')),
  source_email_id uuid,
  created_at      timestamptz not null,
  expires_at      timestamptz,
  primary key (project_id, environment, address_key)
);
-- Lists of one reason. Every column is hidden in an expression: as plain columns they would make this
-- index usable for accepting and claiming, which look up one address by the primary key.
create index suppressions_by_reason on suppressions
  (hashtextextended(project_id::text || environment || reason, 0), (address_key || ''));

-- One row per addition and removal, written with the change itself. Rows older than 400 days are
-- deleted. `by`: delivery, recipient, api, import or command_line.
create table suppression_history (
  project_id      uuid not null references projects,
  environment     text not null,
  address_key     text collate "C" not null,
  at              timestamptz not null,
  action          text not null check (action in ('added', 'removed')),
  reason          text not null,
  source_email_id uuid,
  by              text not null
);
create index suppression_history_by_address
  on suppression_history (project_id, environment, address_key, at);
create index suppression_history_by_time on suppression_history (at);

-- Emails that failed for good because a mailbox was full: one row per email and address, kept for a
-- week. Several of them suppress the address.
create table quota_failures (
  project_id  uuid not null references projects,
  environment text not null,
  address_key text collate "C" not null,
  email_id    uuid not null,
  failed_at   timestamptz not null,
  primary key (project_id, environment, address_key, email_id)
);
create index quota_failures_by_time on quota_failures (failed_at);
