-- The newest report of the doctor for each node (src/doctor/report-store.ts), and the run that is in progress.

create table doctor_reports (
  instance     uuid primary key, -- nodes.instance, the data directory
  host         text not null,
  requested_at timestamptz,      -- an operator asked for a run that has not begun
  run_id       uuid,             -- of the last run that began; only that run may write
  begun_at     timestamptz,      -- its begin; null: none has begun
  checks_ended integer not null default 0,
  finished_at  timestamptz,      -- the end of the last run that ended; it has the columns below
  red          integer not null default 0, -- counts of checks, by their worst finding
  yellow       integer not null default 0,
  unknown      integer not null default 0,
  green        integer not null default 0,
  -- A list of findings. Not jsonb, which refuses the NUL that a foreign server may have replied.
  findings     json not null default '[]'
);
