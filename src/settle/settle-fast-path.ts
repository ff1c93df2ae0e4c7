/**
 * The fast path of settling: a short statement for `delivered` and `sent` (accepted by a relay), after an attempt of
 * the worker that leases the recipient. It costs PostgreSQL little more than half of the full path's CPU
 * (docs/decisions/0004-accept-and-settle.md).
 *
 * The full path (settle-full-path.ts) remains the specification. The fast path stores an outcome exactly as the full
 * path would, or skips it: when the recipient is not leased, or its email is locked at the moment. If anything else is
 * wrong with one outcome, the fast path stores nothing. The full path then decides, in a separate commit.
 * settle-fast-path.test.ts compares both paths.
 *
 * The ids are sorted, so that every statement locks emails in the same order.
 */
import { OPEN_STATUSES, STATUS_RANK } from '../core/statuses.ts';
import { EVENT_OF_STATUS, type EventType } from '../core/events.ts';
import { binaryArray, literalArray } from '../database/parameters/binary-array.ts';
import type { Queryable, Statement } from '../database/database.ts';
import { namedParameters } from '../database/parameters/named-parameters.ts';
import type { Settlement } from './settlement.ts';
import { fanOut } from '../events/event-store.ts';
import { countSettled } from '../stats/stats-store.ts';

/** Accepted by the recipient's server, or by a relay. */
const FAST_STATUSES = ['delivered', 'sent'] as const;
type FastStatus = (typeof FAST_STATUSES)[number];
const OPEN = OPEN_STATUSES.map((status) => `'${status}'`).join();

/** One element of each array belongs to one outcome. */
const PARAMETERS = namedParameters([
  'emailCount',
  'firstId',
  'lastId',
  'ids',
  'leaseId',
  'positions',
  'claims',
  'replies',
  'providers',
  'eventIds',
  'data',
  'attempts',
  'projectIds',
]);
const P = PARAMETERS.sql;

/**
 * Two conditions are always true. `between firstId and lastId` excludes the partitions of other weeks when the
 * statement starts, which saves a quarter of the CPU of a batch of one. `between 1 and emailCount` makes the planner
 * expect one row, so that it finds each row by its key, even if the tables were empty when the plan was made.
 */
const changeSql = (status: FastStatus, type: EventType): string => `
with email as materialized (
  select input.ord, now() + (select skew from clock) as now,
         queue.position, email.project_id, email.environment,
         email.id,
         email.event_count + 1 as seq, email.created_at, email.scheduled_at, email.from_address, email.key_id,
         email.tags, email.template_id
    from unnest(${P.ids}::uuid[], ${P.projectIds}::uuid[]) with ordinality as input(id, project_id, ord)
   cross join lateral (
      select queue.project_id, queue.environment, queue.position from queue
       where queue.project_id = input.project_id and queue.email_id = input.id
         and queue.position = (${P.positions}::int[])[input.ord]
         and queue.holder = ${P.leaseId}::uuid
         and queue.claim = (${P.claims}::int[])[input.ord] limit 1) queue
   cross join lateral (
      select email.* from emails email
       where email.project_id = queue.project_id and email.environment = queue.environment
         and email.id = input.id
         and email.id between ${P.firstId}::uuid and ${P.lastId}::uuid
       limit 1 for update skip locked) email
   where input.ord between 1 and ${P.emailCount}::int
),
changed_recipients as (
  update recipients
     set status = '${status}', attempts = recipients.attempts + 1, reason = null,
         smtp = coalesce((${P.replies}::json[])[email.ord], recipients.smtp),
         provider = (${P.providers}::text[])[email.ord],
         completed_at = email.now, next_attempt_at = null
    from email
   where recipients.project_id = email.project_id and recipients.email_id = email.id
     and recipients.position = email.position
     and recipients.email_id between ${P.firstId}::uuid and ${P.lastId}::uuid
     and recipients.status in (${OPEN})
     and recipients.completed_at is null
  returning 1
),
counted as (
  update emails
     set open_count = emails.open_count - 1, event_count = emails.event_count + 1,
         worst = greatest(emails.worst, ${STATUS_RANK[status]}), last_event = '${type}',
         sent_at = coalesce(emails.sent_at, email.now),
         completed_at = case when emails.open_count = 1 then email.now else emails.completed_at end
    from email
   where emails.project_id = email.project_id and emails.environment = email.environment
     and emails.id = email.id
     and emails.id between ${P.firstId}::uuid and ${P.lastId}::uuid
  returning emails.event_count = email.seq as agrees
),
finished as (
  delete from queue using email
   where queue.project_id = email.project_id and queue.email_id = email.id and queue.position = email.position
     and queue.holder = ${P.leaseId}::uuid and queue.claim = (${P.claims}::int[])[email.ord]
  returning 1
),`;

const notifySql = (status: FastStatus, type: EventType): string => `
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at,
                      data, attempt)
  select email.project_id, email.environment, email.id, email.seq, (${P.eventIds}::uuid[])[email.ord],
         '${type}', email.position, email.now,
         (${P.data}::json[])[email.ord], (${P.attempts}::json[])[email.ord]
    from email
),${fanOut({
  from: 'email',
  row: 'email',
  id: `(${P.eventIds}::uuid[])[email.ord]`,
  subjectId: 'email.id',
  seq: 'email.seq',
  type: `'${type}'`,
  now: 'email.now',
})},${countSettled({
  from: 'email',
  now: 'email.now',
  status: `'${status}'`,
  provider: `(${P.providers}::text[])[email.ord]`,
})}
select array_agg(email.ord::int) as ords, (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from email
 -- The checks of the full path: each of the three steps has one row for each email.
 where (select assert_equal((select count(*) from changed_recipients) + (select count(*) from finished)
                              + (select count(*) from counted where agrees),
                            3 * (select count(*) from email),
                            'rows of outcomes on the fast path'))`;

/** One statement for each status, with status, event and rank as constants. */
const STATEMENTS: Readonly<Record<FastStatus, Statement>> = {
  delivered: statementFor('delivered'),
  sent: statementFor('sent'),
};

function statementFor(status: FastStatus): Statement {
  const type = EVENT_OF_STATUS[status];
  return { name: `settle_fast_${status}`, text: changeSql(status, type) + notifySql(status, type) };
}

/** An outcome for the fast path, with its JSON as stored. */
export type FastOutcome = {
  outcome: Settlement;
  status: FastStatus;
  data: string;
  attempt: string;
  smtp: string | null;
};

/**
 * Returns the outcomes of a batch for the fast path, in the order of their emails. Skips an email with several
 * outcomes. A batch has a single status. With a relay that is `sent`; only test mail is `delivered`.
 */
export function fastOutcomesOf(batch: readonly Settlement[]): FastOutcome[] {
  const byEmail = Map.groupBy(batch, ({ emailId }) => emailId);
  const outcomes = [...byEmail.keys()].toSorted().flatMap((emailId) => {
    const [outcome, ...others] = byEmail.get(emailId)!;
    const one = outcome && others.length === 0 ? asFastOutcome(outcome) : null;
    return one === null ? [] : [one];
  });
  return outcomes.filter(({ status }) => status === outcomes[0]!.status);
}

function asFastOutcome(outcome: Settlement): FastOutcome | null {
  const { eventType, attempt, reason, suppress, late, notice } = outcome;
  const status = FAST_STATUSES.find((one) => one === outcome.status);
  if (status === undefined || eventType !== EVENT_OF_STATUS[status] || late) return null;
  if (attempt === null || reason !== null || suppress !== null || notice !== undefined) return null;
  const json = {
    data: JSON.stringify(outcome.data),
    attempt: JSON.stringify(attempt),
    smtp: outcome.smtp && JSON.stringify(outcome.smtp),
  };
  return Object.values(json).some(hasEscapedCharacter) ? null : { outcome, status, ...json };
}

/** The full path refuses some of these characters. The fast path would not notice them. */
function hasEscapedCharacter(json: string | null): boolean {
  return json !== null && json.includes(String.raw`\u`);
}

/**
 * Stores outcomes in one transaction, or none of them.
 * @returns the stored outcomes, and the number of webhook deliveries queued
 */
export async function storeFast(
  db: Queryable,
  fast: readonly FastOutcome[],
  leaseId: string,
): Promise<{ stored: Settlement[]; queuedWebhooks: number }> {
  const outcomes = fast.map(({ outcome }) => outcome);
  const emailIds = outcomes.map(({ emailId }) => emailId);
  const column = (type: 'text' | 'json', of: (one: FastOutcome) => string | null) =>
    binaryArray(type, fast.map(of));
  const statement = STATEMENTS[fast[0]!.status];
  const [row] = await db.query<{ ords: number[] | null; queuedWebhooks: number }>(
    statement,
    PARAMETERS.valuesOf({
      emailCount: fast.length,
      firstId: emailIds[0],
      lastId: emailIds.at(-1),
      ids: literalArray(emailIds),
      leaseId,
      positions: literalArray(outcomes.map(({ position }) => position)),
      claims: literalArray(outcomes.map(({ claim }) => claim)),
      replies: column('json', ({ smtp }) => smtp),
      providers: column('text', ({ outcome }) => outcome.provider),
      eventIds: literalArray(outcomes.map(({ eventId }) => eventId)),
      data: column('json', ({ data }) => data),
      attempts: column('json', ({ attempt }) => attempt),
      projectIds: literalArray(outcomes.map(({ projectId }) => projectId)),
    }),
  );
  const stored = (row?.ords ?? []).map((ord) => outcomes[ord - 1]!);
  return { stored, queuedWebhooks: row?.queuedWebhooks ?? 0 };
}
