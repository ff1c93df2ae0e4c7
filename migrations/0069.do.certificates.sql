-- Certificates that the service orders by ACME (src/certificates/). They are here, so that all nodes use one certificate
-- for a name and any of them answers the authority. Private keys are sealed with the secret key.

create table acme_accounts (
  directory_url text primary key,
  id            uuid not null,
  private_key   bytea not null
);

create table acme_certificates (
  name          text primary key,
  id            uuid not null,
  directory_url text not null,
  chain         text,                        -- PEM; null: none was issued yet
  private_key   bytea,                       -- of `chain`
  issued_at     timestamptz,
  due_at        timestamptz not null,        -- of the next order; an attempt moves it before it begins
  failures      int not null default 0,      -- attempts since the last certificate
  problem       text,
  remedy        text,
  order_url     text,                        -- of an order that is not complete
  order_key     bytea                        -- for its certificate
);

-- What this installation answers to the authority. Rows are deleted after the order, or when they are old.
create table acme_challenges (
  token             text primary key,
  key_authorization text not null,
  created_at        timestamptz not null
);
