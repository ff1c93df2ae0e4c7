/**
 * The fast path of accepting: one statement stores emails to one recipient that are due now and that nothing
 * prevents. It costs PostgreSQL less CPU than the full path, and one round trip
 * (docs/decisions/0004-accept-and-settle.md).
 *
 * The full path (full-path.ts) remains the specification. The fast path stores an email exactly as the full path
 * would, or skips it. The full path then decides the skipped emails in a commit of its own: refusals, suppressed
 * recipients, known idempotency keys, paused domains, and limits without capacity for the whole batch.
 * fast-path.test.ts compares both paths.
 *
 * The statement looks up once what several emails share (`email_group`). It locks the limit row first, in the order
 * of the other statements, so that they cannot deadlock. Inserting an idempotency key decides about it: for a key
 * that exists, however old, `do nothing` returns no row, and its email is skipped.
 */
import { domainOf, formatMailbox } from '../../mail/address.ts';
import { parseTracking } from '../../mail/links/tracking-link.ts';
import {
  arraysOf,
  type Column,
  ColumnParameters,
  CONTENT_COLUMNS,
  EMAIL_COLUMNS,
  QUEUE_COLUMNS,
  RECIPIENT_COLUMNS,
} from './columns.ts';
import { type AcceptRow, type EmailBatch, limitKeyOf, type NewEmail } from './new-email.ts';
import { VALID_KEY, VERIFIED_DOMAIN } from './facts.ts';
import type { FullPathOptions } from './full-path.ts';
import { commitAccepted } from './insert.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import { BLOCKS_IN_VIEW, FREE_BLOCK } from './limit-blocks.ts';
import { CURRENT_COUNTS, defaultLimits, limitWindow, openWindows } from './limit-windows.ts';
import { binaryArray, literalArray } from '../../database/binary-array.ts';
import type { Queryable, Statement } from '../../database/database.ts';

/** The same rule as `storedTracking` of decision.ts; `i` has the email's settings. */
const TRACKING = `case when i.tracking_base is not null then
           nullif(concat_ws('+', case when coalesce(i.track_opens, d.track_opens) then 'opens' end,
                                 case when coalesce(i.track_clicks, d.track_clicks) then 'clicks' end),
                  '') || ':' || i.tracking_base end`;

const WINDOW = `cross join lateral (${limitWindow('not w.has_blocks')}) w`;

/** A block, or the limit row when no block is usable. */
const WINDOW_OR_BLOCK = `cross join lateral (${limitWindow('true', '')}) m
   cross join lateral (${openWindows('m')}) n
   cross join lateral (${BLOCKS_IN_VIEW}) s
   cross join lateral (${FREE_BLOCK}
       union all
      select w.*, null from (${limitWindow('s.is_by_row')}) w) w`;

const REMAINING_WITH_BLOCKS = `
         case when w.slot is not null then m.max - m.used + s.permits
              when c.started_at = m.started_at then w.max - c.used + s.permits
              else w.max - c.used end`;

type Key = { key: string; fingerprint: string; response: string };

const KEY_COLUMNS: readonly Column<Key | null>[] = [
  { name: 'key', type: 'text', value: (one) => one && one.key },
  { name: 'fingerprint', type: 'text', value: (one) => one && one.fingerprint },
  { name: 'response', type: 'text', value: (one) => one && one.response },
];

const EVENT_COLUMNS: readonly Column<NewEmail>[] = [
  { name: 'id', type: 'uuid', value: ({ eventId }) => eventId },
  { name: 'data', type: 'json', value: ({ eventData }) => JSON.stringify(eventData) },
];

/** Columns that are constant on this path, or shared by a group of emails. They are not passed for each email. */
const NOT_PASSED = ['cc_list', 'bcc_list', 'reply_to', 'tags'];
const PASSED_EMAIL_COLUMNS = EMAIL_COLUMNS.filter(({ name }) => !NOT_PASSED.includes(name));

const parameters = new ColumnParameters(11);
const EMAIL = parameters.elements(PASSED_EMAIL_COLUMNS);
const CONTENT = parameters.elements(CONTENT_COLUMNS);
const RECIPIENT = parameters.elements(RECIPIENT_COLUMNS);
const QUEUE = parameters.elements(QUEUE_COLUMNS);
const EVENT = parameters.elements(EVENT_COLUMNS);
/** Only statements for emails with idempotency keys have these. */
const KEY = parameters.elements(KEY_COLUMNS).byName;
/** A batch has one key, which is the first element. */
const BATCH_KEY = KEY['key']!.replace('[ord]', '[1]');

/** Indexes arrays where their elements are used: passing elements through the steps would copy them. */
const candidateSql = (hasBlocks: boolean): string => `
with email_group as materialized (
  select i.*, t.now, to_char(t.now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as time,
         d.id as domain_id, d.ed25519_verified as dual_signed, coalesce(i.tls, d.tls) as effective_tls,
         ${TRACKING} as tracking, w.max, w.length, c.used, c.started_at, c.recipients_used,
         c.recipients_started_at, ${hasBlocks ? REMAINING_WITH_BLOCKS : 'w.max - c.used'} as remaining
         ${hasBlocks ? ', w.slot' : ''}
    from (select now() + skew as now from clock) t
   cross join json_to_recordset($5::json) as i(
      group_number int, project_id uuid, environment text, project_emails int, key_id uuid, domain text,
      reply_to text[], tags jsonb, tls text, track_opens boolean, track_clicks boolean,
      tracking_base text, lifetime_s int, hand_over boolean)
   ${hasBlocks ? WINDOW_OR_BLOCK : WINDOW}
   cross join lateral (${openWindows('w')}) o
   cross join lateral (select ${CURRENT_COUNTS}) c
   cross join lateral (${VALID_KEY}) k
   cross join lateral (${VERIFIED_DOMAIN}) d
   where i.project_emails <= w.max - c.used and i.project_emails <= w.recipients_max - c.recipients_used
     and not d.is_paused
),
candidate as (
  select i.ord, ($8::uuid[])[i.ord] as id, g.group_number, g.project_id, g.environment, g.key_id, g.now,
         g.time, g.lifetime_s, g.hand_over, g.domain_id, g.dual_signed, g.reply_to, g.tags,
         g.effective_tls, g.tracking
    from generate_series(1, $7::int) as i(ord)
    join email_group g on g.group_number = ($9::int[])[i.ord]
   where not exists (select from suppressions s
                      where s.project_id = g.project_id and s.environment = g.environment
                        and s.address_key = ($10::text[])[i.ord]
                        and ${holdsBack('g.now')} offset 0)
),`;

const WITHOUT_KEYS = `
accepted as materialized (select * from candidate),`;

const rememberKeySql = (response: string, condition: string) => `
remembered as (
  insert into idempotency (project_id, environment, key, fingerprint, email_id, response, expires_at)
  select project_id, environment, ${KEY['key']}, decode(${KEY['fingerprint']}, 'hex'), id, ${response},
         now + interval '24 hours'
    from candidate c
   where ${KEY['key']} is not null and ${condition}
   order by 1, 2, 3
  on conflict (project_id, environment, key) do nothing
  returning email_id
),`;

const WITH_KEYS = `${rememberKeySql(
  `replace(replace(${KEY['response']}, '@created_at', c.time), '@status', 'queued')`,
  'true',
)}
accepted as materialized (
  select * from candidate
   where ${KEY['key']} is null or exists (select from remembered m where m.email_id = id)
),`;

/** For the emails of one request: all or none. Its key is stored with the first of them. */
const ALL_ARE_CANDIDATES = '(select count(*) from candidate) = $7';
const BATCH = `${rememberKeySql(KEY['response']!, ALL_ARE_CANDIDATES)}
accepted as materialized (
  select * from candidate
   where ${ALL_ARE_CANDIDATES} and (${BATCH_KEY} is null or exists (select from remembered))
),`;

const SPENDING_BLOCKS = `,
spending_of_blocks as (
  update limit_blocks b set permits = b.permits - s.count
    from spent s
   where b.project_id = s.project_id and b.environment = s.environment and b.slot = s.slot
     and b.project_id = any($11::uuid[])
)`;

const STORING = `
new_emails as (
  insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                      key_id, cc_list, bcc_list, reply_to, tags, open_count, worst, event_count,
                      last_event, ${EMAIL.names})
  select project_id, environment, id, now, now + lifetime_s * interval '1 second', domain_id,
         dual_signed, key_id, '{}', '{}', reply_to, tags, 1, 0, 1, 'email.queued', ${EMAIL.values}
    from accepted
),
new_contents as (
  insert into contents (project_id, email_id, tls, tracking, ${CONTENT.names})
  select project_id, id, effective_tls, tracking, ${CONTENT.values} from accepted
),
new_recipients as (
  insert into recipients (project_id, email_id, position, status, next_attempt_at,
                          ${RECIPIENT.names})
  select project_id, id, 0, 'queued', now, ${RECIPIENT.values} from accepted
),
new_queue as (
  insert into queue (project_id, email_id, position, environment, due_at, holder, claim,
                     ${QUEUE.names})
  select project_id, id, 0, environment, now, case when hand_over then $6::uuid end, 1,
         ${QUEUE.values}
    from accepted
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, type, created_at, ${EVENT.names})
  select project_id, environment, id, 1, 'email.queued', now, ${EVENT.values} from accepted
),
-- The same as FAN_OUT (events/event-store.ts), but endpoints are looked up once for a group, not for each event.
notification as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select a.project_id, a.environment, w.id, ${EVENT.byName['id']}, a.id, 1, 'email.queued', a.now
    from email_group g
   cross join lateral (
      select w.id from webhook_endpoints w
       where w.project_id = g.project_id and w.environment = g.environment
         and w.status = 'enabled' and (w.events is null or 'email.queued' = any(w.events)) offset 0) w
    join accepted a on a.group_number = g.group_number
  returning project_id, endpoint_id, event_id, created_at
),
notification_queue as (
  insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, created_at from notification
  returning 1
),
counted as materialized (
  select g.*, c.count, c.email_numbers
    from email_group g
   cross join lateral (
      select count(*)::int as count, array_agg(a.ord) as email_numbers from accepted a
       where a.group_number = g.group_number) c
   where c.count > 0
),
-- The full path inserts a row for each email; the sums are the same.
new_counts as (
  insert into stats_deltas (project_id, environment, at, what, domain, key_id, tags, emails,
                            recipients, suppressed)
  select project_id, environment, now, 'accepted', domain, key_id, tags, count, count, 0 from counted
),
`;

const countingSql = (hasBlocks: boolean): string => `
spent as materialized (
  select project_id, environment, used, started_at, recipients_used, recipients_started_at,
         sum(count)::int as count${hasBlocks ? ', slot' : ''}
    from counted group by 1, 2, 3, 4, 5, 6${hasBlocks ? ', slot' : ''}
),
spending as (
  update limit_windows l
     set used = s.used + s.count, started_at = s.started_at,
         recipients_used = s.recipients_used + s.count,
         recipients_started_at = s.recipients_started_at
    from spent s
   where l.project_id = s.project_id and l.environment = s.environment and l.category = 'sending'
     -- uses the index for many projects, too, if the plan was made for few
     and l.project_id = any($11::uuid[])${hasBlocks ? ' and s.slot is null' : ''}
)${hasBlocks ? SPENDING_BLOCKS : ''}
select c.email_numbers, c.domain_id, c.dual_signed, c.effective_tls as tls, c.tracking, c.now as created_at,
       c.time, c.max as "limit", c.remaining,
       ceil(extract(epoch from c.started_at + c.length - c.now))::int as reset_s,
       extract(epoch from c.length)::int as window_s,
       (select count(*) from notification_queue)::int as notified
  from counted c`;

/**
 * The statements for projects with blocks (limit-blocks.ts) take 0.14 ms longer to start. The plain ones store
 * nothing if an email of the batch belongs to such a project.
 */
type StatementVariants = { plain: Statement; withBlocks: Statement };

function statementVariants(name: string, accepting: string): StatementVariants {
  const text = (hasBlocks: boolean) =>
    `${candidateSql(hasBlocks)}${accepting}${STORING}${countingSql(hasBlocks)}`;
  return {
    plain: { name, text: text(false) },
    withBlocks: { name: `${name}_with_blocks`, text: text(true) },
  };
}

const FAST_WITHOUT_KEYS = statementVariants('accept_fast', WITHOUT_KEYS);
const FAST_WITH_KEYS = statementVariants('accept_fast_with_keys', WITH_KEYS);
const FAST_BATCH = statementVariants('accept_fast_together', BATCH);

export type FastPathOptions = FullPathOptions & {
  /** True when the limit of one of the projects is known to have blocks. */
  hasBlocks?: boolean;
};

type GroupRow = {
  /** Numbers of the stored emails, from 1. */
  email_numbers: number[];
  domain_id: string;
  dual_signed: boolean;
  tls: AcceptRow['tls'];
  tracking: string | null;
  created_at: Date;
  time: string;
  limit: number;
  /** Remaining permits before this batch. */
  remaining: number;
  reset_s: number;
  window_s: number;
  notified: number;
};

export function isForFastPath({ scheduledAt, recipients, to, cc, bcc, dsn }: NewEmail): boolean {
  const [recipient] = recipients;
  return (
    scheduledAt === null &&
    dsn === undefined &&
    recipients.length === 1 &&
    recipient?.kind === 'to' &&
    recipient.position === 0 &&
    to.length === 1 &&
    cc.length === 0 &&
    bcc.length === 0
  );
}

/**
 * Stores emails for which `isForFastPath` holds, in one transaction.
 * @returns one row per email, in order; null: skipped, for the full path to decide
 */
export async function storeEmailsFast(
  db: Queryable,
  emails: readonly NewEmail[],
  options: FastPathOptions,
): Promise<(AcceptRow | null)[]> {
  const hasKeys = emails.some(({ idempotency }) => idempotency !== null);
  const statement = hasKeys ? FAST_WITH_KEYS : FAST_WITHOUT_KEYS;
  const keys = emails.map(
    ({ idempotency, response }) => idempotency && { ...idempotency, response },
  );
  return runStatement(db, statement, { ...options, emails, keys: hasKeys ? keys : null });
}

/** Stores the emails of one request. @returns null when nothing was stored */
export async function storeBatchFast(
  db: Queryable,
  batch: EmailBatch,
  options: FastPathOptions,
): Promise<AcceptRow[] | null> {
  const { emails, idempotency } = batch;
  const response = batch.respond(emails.map(() => 'accepted'));
  const keys = [idempotency && { ...idempotency, response }];
  const rows = await runStatement(db, FAST_BATCH, { ...options, emails, keys });
  const stored = rows.filter((row) => row !== null);
  if (stored.length < rows.length) return null;
  return stored.map((row, index) => ({ ...row, response: index === 0 ? response : null }));
}

type FastPathInput = FastPathOptions & {
  emails: readonly NewEmail[];
  keys: readonly (Key | null)[] | null;
};

async function runStatement(
  db: Queryable,
  { plain, withBlocks }: StatementVariants,
  { emails, keys, ...options }: FastPathInput,
): Promise<(AcceptRow | null)[]> {
  const statement = options.hasBlocks ? withBlocks : plain;
  const values = valuesOf(emails, options);
  if (keys !== null) values.push(...arraysOf(KEY_COLUMNS, keys));
  const groups = await commitAccepted<GroupRow>(db, { statement, values }, options.onNotified);
  return acceptRowsOf(emails, groups, options.holder);
}

function valuesOf(emails: readonly NewEmail[], options: FastPathOptions): unknown[] {
  const { holder } = options;
  const { groups, groupNumbers } = groupEmails(emails, holder !== null);
  const recipients = emails.map((email) => email.recipients[0]!);
  return [
    ...defaultLimits(options),
    JSON.stringify(groups),
    holder,
    emails.length,
    literalArray(emails.map((email) => email.id)),
    literalArray(groupNumbers),
    binaryArray(
      'text',
      recipients.map(({ addressKey }) => addressKey),
    ),
    literalArray([...new Set(emails.map((email) => email.projectId))]),
    ...arraysOf(PASSED_EMAIL_COLUMNS, emails),
    ...arraysOf(CONTENT_COLUMNS, emails),
    ...arraysOf([...RECIPIENT_COLUMNS, ...QUEUE_COLUMNS], recipients),
    ...arraysOf(EVENT_COLUMNS, emails),
  ];
}

type EmailGroup = ReturnType<typeof groupOf>;

/**
 * Groups emails that share look-ups. Returns the groups in the order in which limits are locked, and the number of each
 * email's group from 1.
 */
function groupEmails(
  emails: readonly NewEmail[],
  hasLease: boolean,
): { groups: object[]; groupNumbers: number[] } {
  const byText = new Map<string, EmailGroup>();
  const counts = new Map<string, number>();
  const texts = emails.map((email) => {
    const group = groupOf(email, hasLease);
    const text = JSON.stringify(group);
    byText.set(text, group);
    counts.set(limitKeyOf(email), (counts.get(limitKeyOf(email)) ?? 0) + 1);
    return text;
  });
  // The lock order of the full path: project and environment come first in the text, and both sort by bytes.
  const sorted = [...byText.keys()].toSorted();
  const numbers = new Map(sorted.map((text, index) => [text, index + 1]));
  const groups = sorted.map((text, index) => {
    const group = byText.get(text)!;
    const projectEmails = counts.get(`${group.project_id} ${group.environment}`);
    return { ...group, group_number: index + 1, project_emails: projectEmails };
  });
  return { groups, groupNumbers: texts.map((text) => numbers.get(text)!) };
}

function groupOf(email: NewEmail, hasLease: boolean) {
  return {
    project_id: email.projectId,
    environment: email.environment,
    key_id: email.keyId,
    domain: domainOf(email.from.address),
    reply_to: email.replyTo.map(formatMailbox),
    tags: email.tags,
    tls: email.tls ?? undefined,
    track_opens: email.tracking.opens ?? undefined,
    track_clicks: email.tracking.clicks ?? undefined,
    tracking_base: email.tracking.base ?? undefined,
    lifetime_s: email.lifetimeS,
    hand_over: email.mayHandOver && hasLease,
  };
}

function acceptRowsOf(
  emails: readonly NewEmail[],
  groups: readonly GroupRow[],
  holder: string | null,
): (AcceptRow | null)[] {
  const storedCounts = new Map<string, number>();
  for (const { email_numbers: numbers } of groups) {
    const limitKey = limitKeyOf(emails[numbers[0]! - 1]!);
    storedCounts.set(limitKey, (storedCounts.get(limitKey) ?? 0) + numbers.length);
  }
  const rows = emails.map((): AcceptRow | null => null);
  for (const group of groups) {
    for (const number of group.email_numbers) {
      const email = emails[number - 1]!;
      const remaining = group.remaining - storedCounts.get(limitKeyOf(email))!;
      rows[number - 1] = acceptRowOf(email, { ...group, remaining }, holder);
    }
  }
  return rows;
}

function acceptRowOf(email: NewEmail, group: GroupRow, holder: string | null): AcceptRow {
  return {
    outcome: 'accepted',
    response: email.response.replaceAll('@created_at', group.time).replaceAll('@status', 'queued'),
    fingerprint: email.idempotency?.fingerprint ?? null,
    domainId: group.domain_id,
    dualSigned: group.dual_signed,
    tls: group.tls,
    tracking: parseTracking(group.tracking),
    createdAt: group.created_at,
    suppressedPositions: [],
    holder: email.mayHandOver ? holder : null,
    limit: {
      limit: group.limit,
      remaining: group.remaining,
      resetS: Math.min(group.reset_s, group.window_s),
      windowS: group.window_s,
    },
  };
}
