-- A second rotation within 24 hours keeps both secrets before it: a client that got no answer repeats
-- its request, and the receiver still has the oldest of the three.
alter table webhook_endpoints
  add column earlier_secret bytea, -- before previous_secret
  add column earlier_secret_expires_at timestamptz;
