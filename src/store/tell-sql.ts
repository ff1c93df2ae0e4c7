/**
 * Telling, as part of the statements that change something (accept-statement.ts,
 * settle.ts): a delivery and a queue row for every enabled endpoint that wants the event.
 * One change, one event, one set of deliveries: they commit together or not at all.
 *
 * Needs a step `t` with the time and a step `new_events` that returns the events' columns. The
 * look-up is lateral with `offset 0`: one probe per event, whatever the planner believes.
 */
export const TELL = `
told as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select e.project_id, e.environment, w.id, e.id, e.subject_id, e.seq, e.type, t.now
    from t, new_events e
   cross join lateral (
      select w.id from webhook_endpoints w
       where w.project_id = e.project_id and w.environment = e.environment
         and w.status = 'enabled' and (w.events is null or e.type = any(w.events)) offset 0) w
  returning project_id, endpoint_id, event_id
),
told_queue as (
  insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, t.now from told, t
  returning 1
)`;
