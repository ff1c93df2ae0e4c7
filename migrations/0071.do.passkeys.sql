-- Passkeys (WebAuthn), and what owners require of all members (src/accounts/).

-- `public_key`: SubjectPublicKeyInfo. `algorithm`: its COSE number. `sign_count`: of the last signature; 0 where the
-- authenticator does not count.
create table passkeys (
  id            uuid primary key,
  member_id     uuid not null references members on delete cascade,
  credential_id bytea not null unique,
  public_key    bytea not null,
  algorithm     integer not null,
  sign_count    bigint not null,
  name          text not null,
  created_at    timestamptz not null,
  last_used_at  timestamptz
);
create index passkeys_by_member on passkeys (member_id, id);

create table sign_in_policy (
  only_row                  boolean primary key default true check (only_row),
  second_factor_required_at timestamptz -- null: it is up to each member
);

-- The session began with a passkey, or with a second factor at the identity provider.
alter table sessions add column has_second_factor boolean not null default false;
