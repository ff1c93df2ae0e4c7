-- What became of suppressions, and full mailboxes on their way there.

-- One row per addition and removal, written with the change itself; store/expiry.ts forgets what is
-- older than 400 days. `by`: who did it, see store/suppression-history.ts.
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

-- Lists of one reason. Every column is hidden in an expression: as themselves they would offer this
-- index to accepting and claiming, which look one address up and must find no second way.
create index suppressions_by_reason on suppressions
  (hashtextextended(project_id::text || environment || reason, 0), (address_key || ''));

-- Emails that failed for good because a mailbox was full: one row per email and address, for a week.
create table quota_failures (
  project_id  uuid not null references projects,
  environment text not null,
  address_key text collate "C" not null,
  email_id    uuid not null,
  failed_at   timestamptz not null,
  primary key (project_id, environment, address_key, email_id)
);
create index quota_failures_by_time on quota_failures (failed_at);
