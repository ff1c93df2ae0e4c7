-- What is known of the TLS of other mail servers.

-- MTA-STS policies of recipients' domains (RFC 8461), shared by all workers and kept over restarts:
-- one that has not expired holds even when neither its DNS nor its HTTPS answers. `id` is that of the
-- TXT record it was fetched for. A row without a policy only remembers that a fetch failed.
create table mta_sts_policies (
  domain     text primary key,
  id         text,
  mode       text check (mode in ('enforce', 'testing', 'none')),
  mx         text[],
  max_age_s  integer,
  fetched_at timestamptz,
  expires_at timestamptz,
  failed_at  timestamptz,
  used_at    timestamptz not null
);
create index mta_sts_policies_by_age on mta_sts_policies (fetched_at) where mode <> 'none';

-- Results of TLS sessions, named as in RFC 8460 §4.3 or `success`: for reports to domains.
create table tls_results (
  day      date not null,
  domain   text not null,
  policy   text not null check (policy in ('tlsa', 'sts', 'no-policy-found')),
  result   text not null,
  sessions bigint not null,
  primary key (day, domain, policy, result)
);
