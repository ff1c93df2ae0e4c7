-- A second factor (RFC 6238). The secret is sealed with the member's id; without `totp_enabled_at` it waits
-- for its first code. `totp_step` is the last period whose code was used: none is taken twice.

alter table members
  add column totp_secret bytea,
  add column totp_enabled_at timestamptz,
  add column totp_step bigint;

-- For who has lost the device. Each works once: the row is deleted by its use.
create table recovery_codes (
  member_id uuid not null references members on delete cascade,
  sha256    bytea not null,
  primary key (member_id, sha256)
);
