-- A value that the secret key has sealed, so that one look at a start shows whether it is the key of this database.
-- Null until the first start of a version that writes it.
alter table installation add column secret_check bytea;

-- Sealed values that the secret key does not open: damaged, or sealed with another key. `kind` names the row that has
-- the value, and with it what cannot be done: sign mail, sign webhooks, check codes of a second factor.
create table unusable_secrets (
  kind     text not null check (kind in ('domain', 'webhook', 'member')),
  owner_id uuid not null, -- the project, or the organization of a member
  id       uuid not null,
  since    timestamptz not null,
  primary key (kind, owner_id, id)
);
