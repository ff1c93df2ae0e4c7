-- When a token was last replaced by a new one: of requests at once, the one that sets it makes the new token.
-- A search for newer tokens instead would not see the one that another request is inserting.

alter table session_tokens add column replaced_at timestamptz;
