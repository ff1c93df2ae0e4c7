-- The project comes first in the keys of the queues, as in those of all tables with the mail of a
-- project, so that a database that is split by project can have them.
--
-- Each key is built and exchanged under a lock that readers and writers of both queues wait for: 1.9 s
-- for a million rows in each of the two, 3.8 s together, on a busy machine, and a few milliseconds when
-- little waits; the tables have only open work. Nobody else works then: the nodes of before have
-- ended (0034), and those of this version start after it. So nothing is gained by indexes that are
-- built `concurrently` before.
alter table queue
  drop constraint queue_pkey,
  add primary key (project_id, email_id, position);
alter table webhook_queue
  drop constraint webhook_queue_pkey,
  add primary key (project_id, event_id, endpoint_id);
