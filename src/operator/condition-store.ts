/**
 * Open conditions of the installation (core/operator-events.ts), with the events at their beginning and end.
 *
 * Guarantee: each statement changes the condition, records the event, and queues webhooks and mail together. Of several
 * concurrent callers one opens or ends the condition, and its return value says so.
 */
import {
  CONDITIONS,
  type ConditionKey,
  type ConditionType,
  type EndedCondition,
  type NewCondition,
  OPERATOR_PROJECT_ID,
} from '../core/operator-events.ts';
import type { Environment, Scope } from '../core/scope.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { newId } from '../database/ids.ts';
import { QUEUE_MAIL } from './operator-mail-store.ts';
import type { Queryable } from '../database/database.ts';

export const OPERATOR_SCOPE: Scope & { environment: Environment } = {
  projectId: OPERATOR_PROJECT_ID,
  environment: 'live',
};

export type Condition = ConditionKey & {
  message: string;
  remedy: string;
  details: Readonly<Record<string, unknown>>;
  since: Date;
  lastSeen: Date;
};

const COLUMNS = `type, subject, message, remedy, details, since, last_seen as "lastSeen"`;

/**
 * Records the event of the rows of step `changed`, its webhooks, and its mail to the operator. $1 is the event's id, $2
 * its type, $3 the state in its data. The id gets the time of the database: a machine with a wrong clock must be able
 * to report that, and its own ids may belong to a week without a partition.
 */
const RECORD_CHANGE = `
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select '${OPERATOR_SCOPE.projectId}', '${OPERATOR_SCOPE.environment}', event.id, 1, event.id, $2::text,
         clock.now,
         json_build_object('subject', changed.subject, 'state', $3::text, 'message', changed.message, 'remedy',
                           changed.remedy,
                           'since', wire_time(changed.since), 'details', changed.details)
    from clock, changed, lateral (
      select (lpad(to_hex(floor(extract(epoch from clock.now) * 1000)::bigint), 12, '0')
              || substr(replace($1::text, '-', ''), 13))::uuid as id) event
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS},${QUEUE_MAIL}`;

const RAISE = `
with clock as materialized (select app_now() as now),
condition as (
  insert into operator_conditions (type, subject, since, last_seen, lapses_at, message, remedy, details)
  select $2::text, $4::text, clock.now, clock.now, clock.now + $5::float8 * interval '1 millisecond',
         $6::text, $7::text,
         $8::jsonb
    from clock
  on conflict (type, subject) do update
     set last_seen = excluded.last_seen, lapses_at = excluded.lapses_at, message = excluded.message,
         remedy = excluded.remedy, details = excluded.details
  returning operator_conditions.*, xmax = 0 as is_new
),
changed as (select * from condition where is_new),
${RECORD_CHANGE}
select ${COLUMNS}, is_new as "isNew" from condition`;

/**
 * Opens a condition, or updates an open one.
 * @returns `isNew` for the one call that opened it
 */
export async function raiseCondition(
  db: Queryable,
  condition: NewCondition,
): Promise<Condition & { isNew: boolean }> {
  const { type, subject, message, remedy, details = {}, lapsesAfterMs = null } = condition;
  const values = [newId(), type, 'raised', withoutNul(subject), lapsesAfterMs];
  const [row] = await db.query<Condition & { isNew: boolean }>(RAISE, [
    ...values,
    withoutNul(message),
    withoutNul(remedy),
    withoutNul(JSON.stringify(details)),
  ]);
  if (!row) throw new Error('a condition was not returned');
  return row;
}

// The event contains the message of the end, and the facts of the end if there are any.
const CLEAR = `
with clock as materialized (select app_now() as now),
ended as (
  delete from operator_conditions using clock
   where operator_conditions.type = $5::text and operator_conditions.subject = $4::text
     and (not $8::boolean or operator_conditions.lapses_at <= clock.now)
  returning operator_conditions.*
),
changed as (
  select type, subject, $6::text as message, null::text as remedy, coalesce($7::jsonb, details) as details,
         since, last_seen
    from ended
),
${RECORD_CHANGE}
select type, subject, message, details, since, last_seen as "lastSeen" from changed`;

/**
 * Ends a condition.
 * @param options.ifLapsed ends it only if it was not reported within its `lapsesAfterMs`
 * @returns the ended condition; null when it was not open
 */
export async function clearCondition(
  db: Queryable,
  ended: EndedCondition,
  { ifLapsed = false }: { ifLapsed?: boolean } = {},
): Promise<Omit<Condition, 'remedy'> | null> {
  const { type, subject, details } = ended;
  const { endsAs, ended: sentence } = CONDITIONS[type];
  const [row] = await db.query<Omit<Condition, 'remedy'>>(CLEAR, [
    newId(),
    endsAs,
    'cleared',
    withoutNul(subject),
    type,
    withoutNul(ended.endMessage ?? sentence),
    details === undefined ? null : withoutNul(JSON.stringify(details)),
    ifLapsed,
  ]);
  return row ?? null;
}

const LIST = `select ${COLUMNS} from operator_conditions order by since desc, type, subject limit $1`;

export function listConditions(db: Queryable, limit: number): Promise<Condition[]> {
  return db.query<Condition>(LIST, [limit]);
}

const COUNT = `select type, count(*)::int as open from operator_conditions group by type`;

export function countConditions(db: Queryable): Promise<{ type: ConditionType; open: number }[]> {
  return db.query(COUNT);
}

const LAPSED = `select type, subject from operator_conditions where lapses_at <= app_now() order by lapses_at`;

/** Returns conditions that were not reported within their `lapsesAfterMs`. End each with `ifLapsed`. */
export function listLapsedConditions(db: Queryable): Promise<ConditionKey[]> {
  return db.query<ConditionKey>(LAPSED);
}

/** PostgreSQL stores no NUL, as itself or as an escape of JSON. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '\uFFFD').replace(/(?<!\\)((?:\\\\)*)\\u0000/g, '$1\\uFFFD');
}
