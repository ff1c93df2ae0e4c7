-- The keys of the two queues get the project first (0035). Code of before names only the email or the
-- event, which the new keys do not serve, and `on conflict (endpoint_id, event_id)` is an error with
-- them. Therefore its nodes settle what they hold by the old keys and end, before the next file
-- exchanges them.
--
-- Considered instead: the old unique index beside the new one until a later version, which each accept
-- and each settle would have to maintain; or nodes of both versions on the new keys, where the older
-- ones would read all of a backlog for each outcome.

-- Both locks that the next file needs: while a backup holds them, it is this file that waits, and the
-- older nodes keep working.
lock table queue, webhook_queue in access exclusive mode;

-- A drop marks mail in the order of the key, so the place where it goes on has the project. A drop that
-- older code began to mark has none: it is marked from the start, and what is marked stays so.
alter table queue_drops add column next_project_id uuid;

update installation set schema_required = 34;
