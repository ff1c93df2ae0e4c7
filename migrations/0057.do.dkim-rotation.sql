-- Rotation of a domain's DKIM keys: the next keys wait beside the present ones until a check finds their record; then
-- they take their place, and the previous ones are kept, because mail that they signed is under way and is shown as it was sent.
alter table domains
  add column dkim_since                   timestamptz, -- of the present keys; null: of the domain
  add column next_since                   timestamptz,
  add column next_rsa_selector            text,
  add column next_rsa_public_key          text,
  add column next_rsa_private_key         bytea,
  add column next_ed25519_selector        text,
  add column next_ed25519_public_key      text,
  add column next_ed25519_private_key     bytea,
  add column previous_until               timestamptz, -- when the present keys took their place
  add column previous_rsa_selector        text,
  add column previous_rsa_public_key      text,
  add column previous_rsa_private_key     bytea,
  add column previous_ed25519_selector    text,
  add column previous_ed25519_public_key  text,
  add column previous_ed25519_private_key bytea;

-- Few: checked again within an hour instead of a day.
create index domains_rotating on domains (checked_at) where deleted_at is null and next_since is not null;
