-- No mail server anywhere answers this node (delivery/uplink.ts): mail that it tried last is not left to it.
alter table nodes add column uplink_down boolean not null default false;
