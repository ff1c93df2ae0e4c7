-- Accounts at the identity provider (OpenID Connect) with which members sign in (src/accounts/oidc/). `issuer` and
-- `subject` together identify an account for ever; addresses change, so they only make the first link.

create table member_identities (
  issuer       text not null,
  subject      text not null,
  member_id    uuid not null unique references members on delete cascade,
  created_at   timestamptz not null,
  last_used_at timestamptz not null,
  primary key (issuer, subject)
);

-- Random values of sign-ins that were used: each works once. SHA-256 of the value.
create table used_challenges (
  sha256     bytea primary key,
  expires_at timestamptz not null
);
create index used_challenges_by_expiry on used_challenges (expires_at);

-- Members who joined by the identity provider have none until they set one with a link. `password` then has a hash
-- that belongs to no password.
alter table members add column has_password boolean not null default true;
