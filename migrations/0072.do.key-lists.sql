-- An API key can be limited to networks of clients, senders and recipients. Null: no limit; a list is never empty. The
-- code stores entries in one form (net/networks.ts, mail/address-patterns.ts). Older code ignores the lists, so limit
-- keys when all nodes run the new version.

alter table api_keys
  add column allowed_networks   text[],
  add column allowed_senders    text[],
  add column allowed_recipients text[];
