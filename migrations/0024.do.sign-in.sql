-- People who use the dashboard, their sessions, and links that are used once (docs/dashboard.md).

-- `email_key` is the address in lower case: what somebody signs in with. `password` names its algorithm
-- and parameters (auth/passwords.ts).
create table members (
  id              uuid primary key,
  organization_id uuid not null references organizations,
  email           text not null,
  email_key       text not null unique,
  name            text not null,
  role            text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  password        text not null,
  created_at      timestamptz not null,
  last_signed_in  timestamptz
);
create index members_by_organization on members (organization_id, id);

create table sessions (
  id           uuid primary key,
  member_id    uuid not null references members on delete cascade,
  network      text not null, -- where it was begun, without what names a person
  user_agent   text,
  created_at   timestamptz not null,
  last_used_at timestamptz not null
);
create index sessions_by_member on sessions (member_id);

-- A session has one token, and during a rotation two. SHA-256 of 256 random bits. The old one gets its
-- `expires_at` with the first use of the new one, so that a client that never received that goes on.
create table session_tokens (
  sha256     bytea primary key,
  session_id uuid not null references sessions on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz
);
create index session_tokens_by_session on session_tokens (session_id);

-- `owner`: creates the first owner. `password`: sets the password of a member. Used once: the row is
-- deleted by its use.
create table sign_in_links (
  sha256     bytea primary key,
  purpose    text not null check (purpose in ('owner', 'password')),
  member_id  uuid references members on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  constraint names_its_member check ((purpose = 'owner') = (member_id is null))
);
create index sign_in_links_by_member on sign_in_links (member_id);

-- What a member sends from the dashboard is sent with a key of that member, project and environment that
-- has no text: accepting checks it like any other, and ends with it.
alter table api_keys add column member_id uuid;
create unique index api_keys_of_members on api_keys (project_id, environment, member_id)
 where member_id is not null and revoked_at is null;
