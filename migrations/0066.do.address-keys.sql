-- Addresses compare regardless of case and composition in every script, instead of by ASCII letters only. The code
-- computes the form in which they compare (store/address-keys.ts). Older code would not find the suppressions of such
-- addresses, so it has to end.

-- Null for addresses in ASCII, whose form is `lower(… collate "C")`. The index has no rows of theirs; building it reads a
-- million recipients in half a second.
alter table recipients add column address_key text collate "C";
alter table emails add column from_key text collate "C";
create index recipients_by_key on recipients
  (hashtextextended(project_id::text || address_key, 0), uuid_send(email_id))
  where address_key is not null;

-- What was stored before and has no such form yet. The lists of addresses and the mail that waits get it before any node
-- of the new version works (`lists_done`), other mail by maintenance, in batches, which keeps its place here. The row
-- goes when all is done.
create table earlier_addresses (
  only_row    boolean primary key default true check (only_row),
  lists_done  boolean not null default false,
  project_id  uuid default '00000000-0000-0000-0000-000000000000',
  environment text not null default '',
  email_id    uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into earlier_addresses default values;

update installation set schema_required = 66;
