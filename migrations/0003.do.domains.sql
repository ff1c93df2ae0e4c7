-- Sending domains with their DKIM keys. A deleted domain keeps its row: mail that it signed can
-- still be shown byte for byte. Private keys are AES-256-GCM with the domain's id as AAD.
-- `tls` is for emails that do not set it themselves. `paused_at`: mail of this domain is held
-- because of a reputation alert, new mail when it is accepted, waiting mail when it is claimed.
create table domains (
  project_id          uuid not null references projects,
  id                  uuid not null,
  environment         text not null check (environment in ('live', 'test')),
  name                text not null,
  status              text not null check (status in ('not_started', 'pending', 'verified', 'failed')),
  created_at          timestamptz not null,
  verified_at         timestamptz,
  checked_at          timestamptz,
  failing_since       timestamptz,
  deleted_at          timestamptz,
  paused_at           timestamptz,
  tls                 text not null default 'opportunistic'
                      check (tls in ('opportunistic', 'enforced')),
  rsa_selector        text not null,
  rsa_public_key      text not null,
  rsa_private_key     bytea not null,
  ed25519_selector    text not null,
  ed25519_public_key  text not null,
  ed25519_private_key bytea not null,
  ed25519_verified    boolean not null default false,
  records             jsonb not null default '[]',
  advice              jsonb not null default '[]',
  primary key (project_id, id)
);
create unique index domains_by_name on domains (project_id, environment, name)
  where deleted_at is null;
create index domains_to_recheck on domains (checked_at) where deleted_at is null;
-- For inbound mail: a return path names a domain and no project.
create index domains_by_name_alone on domains (name);
