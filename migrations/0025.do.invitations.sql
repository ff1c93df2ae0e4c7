-- Links with which somebody becomes a member of an organization. Used once: the row is deleted by its use,
-- and by its revocation. One for each address: a new one replaces it.

create table invitations (
  id              uuid primary key,
  organization_id uuid not null references organizations,
  email           text not null,
  email_key       text not null,
  role            text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  sha256          bytea not null unique,
  created_at      timestamptz not null,
  expires_at      timestamptz not null,
  unique (organization_id, email_key)
);
create index invitations_by_organization on invitations (organization_id, id);
