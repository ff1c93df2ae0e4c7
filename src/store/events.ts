/**
 * Events about something other than an email: a domain, a suppression. One statement writes the
 * event and what is told of it, so that a change and its event commit together (the caller passes
 * the transaction of the change). Events of emails are written by accept-statement.ts and
 * settle.ts in the same way.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import { newId } from './ids.ts';
import { TELL } from './tell-sql.ts';

// The event is its own subject: that puts it into the partition of its own week.
const RECORD = `
with t as materialized (select app_now() as now),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, $2, $3, 1, $3, $4, t.now, $5::json from t
  returning project_id, environment, subject_id, seq, id, type
),
${TELL}
select count(*)::int as told from told_queue`;

/**
 * Records that something happened, and queues it for every endpoint that wants to know.
 * @param event.data the `data` of the webhook; becomes JSON text once and is never changed
 */
export async function recordEvent(
  db: Queryable,
  { scope, type, data }: { scope: Scope; type: EventType; data: object },
): Promise<void> {
  await db.query(RECORD, [scope.projectId, scope.environment, newId(), type, JSON.stringify(data)]);
}
