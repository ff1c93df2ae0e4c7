-- When the authority is asked next whether a certificate should be renewed earlier (RFC 9773). null: soon.
alter table acme_certificates add column renewal_look_at timestamptz;
