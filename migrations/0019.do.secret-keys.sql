-- Which secret keys an installation has used, and which ones each node knows: a rotation goes on only
-- when every node is ready for its next step. Ids only; the keys are never in the database.
create table secret_keys (
  id            text primary key,
  current_since timestamptz not null
);

-- The first of `keys` seals and signs, all of them open and verify. By installation (nodes.instance).
create table known_secret_keys (
  instance uuid primary key,
  keys     text[] not null,
  noted_at timestamptz not null
);
