-- Keys that sign case files (src/emails/evidence/). All nodes sign with the current one. Earlier ones remain, so that
-- the files that they signed can be verified. Private keys are sealed with the secret key.

create table receipt_keys (
  id          uuid primary key,
  public_key  text not null,             -- Ed25519, base64 of 32 octets
  private_key bytea not null,
  created_at  timestamptz not null,
  retired_at  timestamptz                -- null: the current key
);

create unique index receipt_keys_current on receipt_keys ((true)) where retired_at is null;
