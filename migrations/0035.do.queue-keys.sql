-- The project comes first in the keys of the queues, as in those of all tables with the mail of a project, so
-- that a database that is split by project can have them.
--
-- Each key is built and exchanged under a lock that readers and writers of the queue wait for:
-- FIGURES. The nodes of before have ended (0034), those of this version start after
-- it. The tables have only open work, so they are that large only in a backlog. An index that is built
-- `concurrently` beforehand would need a transaction of its own, and no node that waits for it.
alter table queue
  drop constraint queue_pkey,
  add primary key (project_id, email_id, position);
alter table webhook_queue
  drop constraint webhook_queue_pkey,
  add primary key (project_id, event_id, endpoint_id);
