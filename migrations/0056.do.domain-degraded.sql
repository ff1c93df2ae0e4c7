-- A domain whose required records were missing at two checks in a row is degraded: `status` stays `verified`, so that
-- nodes of an older version send its mail, and `degraded_since` is not before `failing_since`.
-- `rsa_published` false: the RSA key's record was missing at two checks, so mail is signed with the Ed25519 key alone
-- while that one is published.
alter table domains
  add column degraded_since timestamptz,
  add column rsa_published  boolean not null default true;

-- Few: checked again within minutes or an hour instead of a day.
create index domains_failing on domains (checked_at) where deleted_at is null and failing_since is not null;
