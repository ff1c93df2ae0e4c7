-- Aggregate reports about DMARC that receivers sent to dmarc@ of a return-path domain (src/domains/dmarc/).

create table dmarc_reports (
  domain       text not null,        -- that published the policy
  organization text not null,        -- the receiver, by its own word
  report_id    text not null,
  received_at  timestamptz not null,
  begins_at    timestamptz not null,
  ends_at      timestamptz not null,
  policy       text not null,        -- none, quarantine or reject, as published then
  sources      json not null,        -- a list of {ip, passed, failed}
  primary key (domain, organization, report_id)
);
create index dmarc_reports_by_end on dmarc_reports (domain, ends_at);
create index dmarc_reports_by_arrival on dmarc_reports (received_at);
