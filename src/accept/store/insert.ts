/**
 * The guarded insert of the full path: stores the accepted emails (decision.ts) in one statement and one commit. The
 * facts behind the decision were read without a lock, so the statement checks them itself:
 *
 * - It locks the limit rows. It stores nothing if one has too little capacity, or if the facts are old.
 * - It fails if an idempotency key has been used meanwhile.
 *
 * No lock outlasts the statement, so a worker that freezes between the two statements delays no other worker.
 *
 * FIND_EMAILS (lost-commits.ts) reads the stored rows after a lost connection and must match this statement.
 */
import { STATUS_RANK } from '../../core/statuses.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { domainOf } from '../../mail/address.ts';
import { noticeFor } from '../../mail/notice.ts';
import {
  arraysOf,
  type Column,
  ColumnParameters,
  CONTENT_COLUMNS,
  EMAIL_COLUMNS,
  namesOf,
  QUEUE_COLUMNS,
  RECIPIENT_COLUMNS,
} from './columns.ts';
import { type Facts, storedTracking, tlsOf, type Decision } from './decision.ts';
import type { NewEmail, NewRecipient } from './new-email.ts';
import { FAN_OUT_OF_NEW_EVENTS } from '../../events/event-store.ts';
import { countAccepted } from '../../stats/stats-store.ts';
import {
  CURRENT_COUNTS,
  configuredLimitValues,
  type ConfiguredLimits,
  limitWindow,
  openWindows,
  DEMAND_PARAMETERS,
  DEMAND_PROJECTS,
  DEMANDS,
  type LimitDemand,
  demandValues,
  withLockTimeout,
} from './limits/limit-windows.ts';
import { type Queryable, sqlStateOf, type Statement } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';

const FACTS_AGE_MAX = `interval '5 seconds'`;

/** `leaseId` is the lease under which the recipients are stored, or null when they wait in the queue table. */
export type Accepted = { email: NewEmail; decision: Decision; leaseId: string | null };

/**
 * `ord` is the number of its email, from 1. `seq` is the number of the event of a suppressed recipient; null for
 * others.
 */
type AcceptedRecipient = Accepted & { ord: number; recipient: NewRecipient; seq: number | null };

const COMMON_COLUMNS: readonly Column<Accepted>[] = [
  { name: 'project_id', type: 'uuid', value: ({ email }) => email.projectId },
  { name: 'environment', type: 'text', value: ({ email }) => email.environment },
  { name: 'id', type: 'uuid', value: ({ email }) => email.id },
  { name: 'key_id', type: 'uuid', value: ({ email }) => email.keyId },
  { name: 'domain_id', type: 'uuid', value: ({ decision }) => verifiedDomainOf(decision).id },
  {
    name: 'dual_signed',
    type: 'boolean',
    value: ({ decision }) => verifiedDomainOf(decision).dualSigned,
  },
  { name: 'scheduled_at', type: 'timestamptz', value: (one) => scheduledAt(one) },
  { name: 'lifetime_s', type: 'int', value: ({ email }) => email.lifetimeS },
  { name: 'open', type: 'int', value: ({ decision }) => decision.openCount },
  { name: 'suppressed', type: 'int', value: ({ decision }) => decision.facts.suppressed.length },
  { name: 'on_hold', type: 'boolean', value: ({ decision }) => isOnHold(decision) },
  { name: 'lease_id', type: 'uuid', value: ({ leaseId }) => leaseId },
  { name: 'status', type: 'text', value: ({ decision }) => statusOf(decision) },
];

const DECISION_COLUMNS: readonly Column<Accepted>[] = [
  { name: 'tls', type: 'text', value: ({ email, decision }) => tlsOf(email, decision.facts) },
  { name: 'tracking', type: 'text', value: (one) => storedTracking(one.email, one.decision.facts) },
  { name: 'event_id', type: 'uuid', value: ({ email }) => email.eventId },
  { name: 'event_data', type: 'json', value: (one) => eventDataJson(one) },
  { name: 'domain', type: 'text', value: ({ email }) => domainOf(email.from.address) },
  { name: 'key', type: 'text', value: ({ decision }) => decision.key?.key ?? null },
  { name: 'fingerprint', type: 'text', value: ({ decision }) => decision.key?.fingerprint ?? null },
  { name: 'response', type: 'text', value: ({ decision }) => decision.key?.response ?? null },
];

const RECIPIENT_DECISION_COLUMNS: readonly Column<AcceptedRecipient>[] = [
  { name: 'ord', type: 'int', value: ({ ord }) => ord },
  { name: 'position', type: 'int', value: ({ recipient }) => recipient.position },
  {
    name: 'status',
    type: 'text',
    value: ({ seq, decision }) => (seq === null ? statusOf(decision) : 'suppressed'),
  },
  { name: 'event_id', type: 'uuid', value: ({ recipient }) => recipient.eventId },
  { name: 'seq', type: 'int', value: ({ seq }) => seq },
  { name: 'event_data', type: 'json', value: (one) => suppressedEventJson(one) },
  { name: 'notice', type: 'json', value: (one) => noticeJson(one) },
];

const RECIPIENT_REQUEST_COLUMNS = [...RECIPIENT_COLUMNS, ...QUEUE_COLUMNS];

const PARAMETERS = namedParameters(
  ['lockTimeoutMs', 'now', 'emailCount', 'keyCount'],
  DEMAND_PARAMETERS,
);
const P = PARAMETERS.sql;

const GUARD = `
with clock as materialized (select ${P.now}::timestamptz as now),
windows as materialized (
  select limit_window.project_id, limit_window.environment, request.emails, request.recipients, counts.*,
         request.emails <= limit_window.max - counts.used
           and request.recipients <= limit_window.recipients_max - counts.recipients_used
           as has_room
    from clock
   cross join ${DEMANDS}
   cross join lateral (${limitWindow(withLockTimeout(P.lockTimeoutMs))}) limit_window
   cross join lateral (${openWindows('limit_window')}) open_windows
   cross join lateral (select ${CURRENT_COUNTS}) counts
),
guard as materialized (
  select clock.now > app_now() - ${FACTS_AGE_MAX}
         and (select count(*) from windows where has_room) = cardinality(${DEMAND_PROJECTS}) as holds
    from clock
)`;

const SPENDING = `
spending as (
  update limit_windows
     set used = windows.used + windows.emails, started_at = windows.started_at,
         recipients_used = windows.recipients_used + windows.recipients,
         recipients_started_at = windows.recipients_started_at
    from windows, guard
   where guard.holds and limit_windows.project_id = windows.project_id
     and limit_windows.environment = windows.environment
     and limit_windows.category = 'sending'
     -- uses the index for many projects, too, if the plan was made for few
     and limit_windows.project_id = any(${DEMAND_PROJECTS})
)`;

const parameters = new ColumnParameters(DEMAND_PARAMETERS + Object.keys(P).length);
const COMMON_SQL = Object.entries(parameters.elements(COMMON_COLUMNS).byName);
const EMAIL = parameters.elements(EMAIL_COLUMNS);
const CONTENT = parameters.elements(CONTENT_COLUMNS);
const DECISION_SQL = parameters.elements(DECISION_COLUMNS).byName;
const RECIPIENTS = parameters.rows([...RECIPIENT_DECISION_COLUMNS, ...RECIPIENT_REQUEST_COLUMNS]);

const STORING = `
accepted as materialized (
  select accepted.*, clock.now, coalesce(accepted.scheduled_at, clock.now) as starts_at
    from clock, guard, lateral (
      select ord, ${COMMON_SQL.map(([name, sql]) => `${sql} as ${name}`).join(', ')}
        from generate_series(1, ${P.emailCount}::int) as ord where guard.holds) accepted
),
recipient as materialized (
  select recipient.*, accepted.project_id, accepted.environment, accepted.id as email_id, accepted.now,
         accepted.starts_at, accepted.lifetime_s,
         accepted.on_hold, accepted.lease_id
    from ${RECIPIENTS} join accepted on accepted.ord = recipient.ord
),
remembered as (
  insert into idempotency (project_id, environment, key, fingerprint, email_id, response,
                           expires_at)
  select project_id, environment, ${DECISION_SQL['key']}, decode(${DECISION_SQL['fingerprint']}, 'hex'), id,
         ${DECISION_SQL['response']}, now + interval '24 hours'
    from accepted where ${DECISION_SQL['key']} is not null order by 1, 2, 3
  on conflict (project_id, environment, key) do update
     set fingerprint = excluded.fingerprint, email_id = excluded.email_id,
         response = excluded.response, expires_at = excluded.expires_at
   where idempotency.expires_at <= (select now from clock)
  returning 1
),
new_emails as (
  insert into emails (project_id, environment, id, created_at, scheduled_at, expires_at, domain_id,
                      dual_signed, key_id, open_count, worst, event_count, last_event,
                      completed_at, ${EMAIL.names})
  select project_id, environment, id, now, scheduled_at,
         starts_at + lifetime_s * interval '1 second', domain_id, dual_signed, key_id, open,
         case when suppressed > 0 then ${STATUS_RANK.suppressed} else 0 end, 1 + suppressed,
         'email.' || case when open = 0 then 'suppressed' else status end,
         case when open = 0 then now end, ${EMAIL.values}
    from accepted
),
new_contents as (
  insert into contents (project_id, email_id, tls, tracking, ${CONTENT.names})
  select project_id, id, ${DECISION_SQL['tls']}, ${DECISION_SQL['tracking']}, ${CONTENT.values} from accepted
),
-- Only suppressed recipients end here. Settling queues the notices of the others.
new_notices as (
  insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
  select project_id, environment, email_id, position, 'failure', notice, now, now
    from recipient where notice is not null
),
new_recipients as (
  insert into recipients (project_id, email_id, position, status, next_attempt_at, completed_at,
                          ${namesOf(RECIPIENT_COLUMNS)})
  select project_id, email_id, position, status,
         case when status <> 'suppressed' then starts_at end,
         case when status = 'suppressed' then now end, ${namesOf(RECIPIENT_COLUMNS)}
    from recipient
),
new_queue as (
  insert into queue (project_id, email_id, position, environment, due_at, held, holder, claim,
                     ${namesOf(QUEUE_COLUMNS)})
  select project_id, email_id, position, environment,
         case when on_hold then now + lifetime_s * interval '1 second' else starts_at end,
         on_hold, lease_id, 1, ${namesOf(QUEUE_COLUMNS)}
    from recipient where status <> 'suppressed'
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at, data)
  select project_id, environment, id, 1, ${DECISION_SQL['event_id']}, 'email.' || status, null::smallint,
         now,
         ${DECISION_SQL['event_data']}
    from accepted
  union all
  select project_id, environment, email_id, seq, event_id, 'email.suppressed', position, now,
         event_data
    from recipient where event_data is not null
  returning project_id, environment, subject_id, seq, id, type
),${FAN_OUT_OF_NEW_EVENTS},${countAccepted({
  from: 'accepted',
  domain: DECISION_SQL['domain']!,
  tags: EMAIL.byName['tags']!,
  template: EMAIL.byName['template_id']!,
  emails: '1',
  recipients: 'open + suppressed',
  suppressed: 'suppressed',
})},${SPENDING}
select guard.holds, (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from guard
 where (select assert_equal((select count(*) from remembered),
                            case when guard.holds then ${P.keyCount}::int else 0 end,
                            'unused idempotency keys'))`;

const INSERT: Statement = { name: 'accept_insert', text: `${GUARD},${STORING}` };

export type InsertOptions = ConfiguredLimits & {
  /** null: the connection's own lock timeout. */
  lockTimeoutMs?: number | null;
  onWebhooksQueued: () => void;
};

/** @returns false when nothing was stored, because the facts no longer hold */
export async function insertAccepted(
  db: Queryable,
  accepted: readonly Accepted[],
  options: InsertOptions & { facts: Facts; demands: readonly LimitDemand[] },
): Promise<boolean> {
  const { facts, demands, lockTimeoutMs = null, onWebhooksQueued } = options;
  const emails = accepted.map(({ email }) => email);
  const recipients = accepted.flatMap(recipientsOf);
  const values = [
    ...configuredLimitValues(options),
    ...demandValues(demands),
    ...PARAMETERS.valuesOf({
      lockTimeoutMs,
      now: facts.exactNow,
      emailCount: accepted.length,
      keyCount: accepted.filter(({ decision }) => decision.key !== null).length,
    }),
    ...arraysOf(COMMON_COLUMNS, accepted),
    ...arraysOf(EMAIL_COLUMNS, emails),
    ...arraysOf(CONTENT_COLUMNS, emails),
    ...arraysOf(DECISION_COLUMNS, accepted),
    ...arraysOf(RECIPIENT_DECISION_COLUMNS, recipients),
    ...arraysOf(
      RECIPIENT_REQUEST_COLUMNS,
      recipients.map(({ recipient }) => recipient),
    ),
  ];
  try {
    const [row] = await commitAccepted<{ holds: boolean; queuedWebhooks: number }>(
      db,
      { statement: INSERT, values },
      onWebhooksQueued,
    );
    return row!.holds;
  } catch (error) {
    if (sqlStateOf(error) === ASSERTION_SQLSTATE) return false;
    throw error;
  }
}

const ASSERTION_SQLSTATE = 'P0004';

/** Runs a statement that stores emails. Its first row has the number of webhook deliveries that it queued. */
export async function commitAccepted<AnyRow extends { queuedWebhooks: number }>(
  db: Queryable,
  { statement, values }: { statement: Statement; values: readonly unknown[] },
  onWebhooksQueued: () => void,
): Promise<AnyRow[]> {
  failpoint('accept_before_commit');
  const rows = await db.query<AnyRow>(statement, values);
  failpoint('accept_after_commit');
  if ((rows[0]?.queuedWebhooks ?? 0) > 0) onWebhooksQueued();
  return rows;
}

function recipientsOf(one: Accepted, index: number): AcceptedRecipient[] {
  let seq = 1;
  return one.email.recipients.map((recipient) => ({
    ...one,
    ord: index + 1,
    recipient,
    seq: isSuppressed(one.decision, recipient) ? (seq += 1) : null,
  }));
}

function verifiedDomainOf({
  facts: { domain },
}: Decision): NonNullable<Decision['facts']['domain']> {
  if (domain === null) throw new Error('an email without a verified domain is refused');
  return domain;
}

function scheduledAt({ email, decision }: Accepted): string | null {
  return decision.isScheduled ? email.scheduledAt!.toISOString() : null;
}

/** A scheduled email of a paused domain is put on hold at its scheduled time, not now. */
function isOnHold(decision: Decision): boolean {
  return verifiedDomainOf(decision).isPaused && !decision.isScheduled;
}

function isSuppressed({ facts }: Decision, { position }: NewRecipient): boolean {
  return facts.suppressed.some((entry) => entry.position === position);
}

function statusOf({ isScheduled }: Decision): string {
  return isScheduled ? 'scheduled' : 'queued';
}

function eventDataJson(one: Accepted): string {
  const scheduled = { status: 'scheduled', scheduled_at: scheduledAt(one) };
  return JSON.stringify({ ...one.email.eventData, ...(one.decision.isScheduled && scheduled) });
}

function suppressedEventJson({ email, recipient, seq }: AcceptedRecipient): string | null {
  if (seq === null) return null;
  const own = { recipient: recipient.address, status: 'suppressed' };
  return JSON.stringify({ ...email.eventData, ...own });
}

/** Outcome of a recipient that is suppressed when the email is accepted. */
const SUPPRESSED_OUTCOME = { status: 'suppressed', smtp: null, reason: null } as const;

function noticeJson({ email, recipient, seq }: AcceptedRecipient): string | null {
  if (seq === null || !email.dsn) return null;
  const notice = noticeFor(email.dsn, recipient.address, SUPPRESSED_OUTCOME);
  return notice ? JSON.stringify(notice.facts) : null;
}
