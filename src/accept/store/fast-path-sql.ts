/**
 * The SQL of the fast path (fast-path.ts): one statement without idempotency keys, one with them, and one for a batch.
 *
 * The statement looks up once what several emails share (`email_group`). It locks the limit row first, in the order
 * of the other statements, so that they cannot deadlock. Inserting an idempotency key decides about it: for a key
 * that exists, however old, `do nothing` returns no row, and its email is skipped.
 *
 * Parameters: the limits (limits/limit-windows.ts), then SHARED_PARAMETERS, then one array for each column. `valuesOf`
 * passes them in the same order.
 */
import {
  arraysOf,
  type Column,
  ColumnParameters,
  CONTENT_COLUMNS,
  EMAIL_COLUMNS,
  QUEUE_COLUMNS,
  RECIPIENT_COLUMNS,
} from './columns.ts';
import { VALID_API_KEY, VERIFIED_DOMAIN } from './facts.ts';
import { BLOCKS_IN_VIEW, FREE_BLOCK } from './limits/limit-blocks.ts';
import {
  CURRENT_COUNTS,
  configuredLimitValues,
  LIMIT_PARAMETERS,
  type ConfiguredLimits,
  limitWindow,
  openWindows,
} from './limits/limit-windows.ts';
import type { EmailResult, NewEmail } from './new-email.ts';
import { fanOut } from '../../events/event-store.ts';
import { countAccepted } from '../../stats/stats-store.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import type { Statement } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';

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

export type IdempotencyRow = { key: string; fingerprint: string; response: string };

const KEY_COLUMNS: readonly Column<IdempotencyRow | null>[] = [
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

/** The shared parameters, in order. They follow the limits, and the arrays of columns follow them. */
const SHARED_PARAMETERS = namedParameters(
  ['groups', 'leaseId', 'emailCount', 'ids', 'groupNumbers', 'addressKeys', 'projectIds'],
  LIMIT_PARAMETERS,
);
const SHARED = SHARED_PARAMETERS.sql;

const parameters = new ColumnParameters(LIMIT_PARAMETERS + Object.keys(SHARED).length);
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
   cross join json_to_recordset(${SHARED.groups}::json) as i(
      group_number int, project_id uuid, environment text, project_emails int, key_id uuid, domain text,
      reply_to text[], tags jsonb, tls text, track_opens boolean, track_clicks boolean,
      tracking_base text, lifetime_s int, hand_over boolean)
   ${hasBlocks ? WINDOW_OR_BLOCK : WINDOW}
   cross join lateral (${openWindows('w')}) o
   cross join lateral (select ${CURRENT_COUNTS}) c
   cross join lateral (${VALID_API_KEY}) k
   cross join lateral (${VERIFIED_DOMAIN}) d
   where i.project_emails <= w.max - c.used and i.project_emails <= w.recipients_max - c.recipients_used
     and not d.is_paused
),
candidate as (
  select i.ord, (${SHARED.ids}::uuid[])[i.ord] as id, g.group_number, g.project_id, g.environment, g.key_id, g.now,
         g.time, g.lifetime_s, g.hand_over, g.domain_id, g.dual_signed, g.reply_to, g.tags,
         g.effective_tls, g.tracking
    from generate_series(1, ${SHARED.emailCount}::int) as i(ord)
    join email_group g on g.group_number = (${SHARED.groupNumbers}::int[])[i.ord]
   where not exists (select from suppressions s
                      where s.project_id = g.project_id and s.environment = g.environment
                        and s.address_key = (${SHARED.addressKeys}::text[])[i.ord]
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
const ALL_ARE_CANDIDATES = `(select count(*) from candidate) = ${SHARED.emailCount}`;
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
     and b.project_id = any(${SHARED.projectIds}::uuid[])
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
  select project_id, id, 0, environment, now, case when hand_over then ${SHARED.leaseId}::uuid end, 1,
         ${QUEUE.values}
    from accepted
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, type, created_at, ${EVENT.names})
  select project_id, environment, id, 1, 'email.queued', now, ${EVENT.values} from accepted
),
-- Endpoints are looked up once for a group, not for each event.
${fanOut({
  from: 'email_group g',
  perGroup: { row: 'g', join: 'join accepted e on e.group_number = g.group_number' },
  id: EVENT.byName['id']!,
  subjectId: 'e.id',
  seq: '1',
  type: `'email.queued'`,
  now: 'e.now',
})},
counted as materialized (
  select g.*, c.count, c.email_numbers
    from email_group g
   cross join lateral (
      select count(*)::int as count, array_agg(a.ord) as email_numbers from accepted a
       where a.group_number = g.group_number) c
   where c.count > 0
),
-- The full path inserts a row for each email; the sums are the same.
${countAccepted({
  from: 'counted',
  domain: 'domain',
  tags: 'tags',
  emails: 'count',
  recipients: 'count',
  suppressed: '0',
})},
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
     and l.project_id = any(${SHARED.projectIds}::uuid[])${hasBlocks ? ' and s.slot is null' : ''}
)${hasBlocks ? SPENDING_BLOCKS : ''}
select c.email_numbers, c.domain_id, c.dual_signed, c.effective_tls as tls, c.tracking, c.now as created_at,
       c.time, c.max as "limit", c.remaining,
       ceil(extract(epoch from c.started_at + c.length - c.now))::int as reset_s,
       extract(epoch from c.length)::int as window_s,
       (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from counted c`;

/** A row of a statement: a group of emails. The statement may store only some of them. */
export type GroupRow = {
  /** Numbers of the stored emails, from 1. */
  email_numbers: number[];
  domain_id: string;
  dual_signed: boolean;
  tls: EmailResult['tls'];
  tracking: string | null;
  created_at: Date;
  time: string;
  limit: number;
  /** Remaining permits before this batch. */
  remaining: number;
  reset_s: number;
  window_s: number;
  queuedWebhooks: number;
};

/**
 * `withBlocks` costs 0.14 ms more per statement. `plain` skips emails of projects with blocks
 * (limits/limit-blocks.ts).
 */
export type StatementVariants = { plain: Statement; withBlocks: Statement };

function statementVariants(name: string, accepting: string): StatementVariants {
  const text = (hasBlocks: boolean) =>
    `${candidateSql(hasBlocks)}${accepting}${STORING}${countingSql(hasBlocks)}`;
  return {
    plain: { name, text: text(false) },
    withBlocks: { name: `${name}_with_blocks`, text: text(true) },
  };
}

export const FAST_WITHOUT_KEYS = statementVariants('accept_fast', WITHOUT_KEYS);
export const FAST_WITH_KEYS = statementVariants('accept_fast_with_keys', WITH_KEYS);
export const FAST_BATCH = statementVariants('accept_fast_batch', BATCH);

type StatementInput = {
  limits: ConfiguredLimits;
  shared: Record<keyof typeof SHARED, unknown>;
  emails: readonly NewEmail[];
  /** null for the statement without keys. */
  keys: readonly (IdempotencyRow | null)[] | null;
};

/** Returns the values of a statement, in the order in which its parameters are numbered above. */
export function valuesOf({ limits, shared, emails, keys }: StatementInput): unknown[] {
  const recipients = emails.map((email) => email.recipients[0]!);
  return [
    ...configuredLimitValues(limits),
    ...SHARED_PARAMETERS.valuesOf(shared),
    ...arraysOf(PASSED_EMAIL_COLUMNS, emails),
    ...arraysOf(CONTENT_COLUMNS, emails),
    ...arraysOf(RECIPIENT_COLUMNS, recipients),
    ...arraysOf(QUEUE_COLUMNS, recipients),
    ...arraysOf(EVENT_COLUMNS, emails),
    ...(keys === null ? [] : arraysOf(KEY_COLUMNS, keys)),
  ];
}
