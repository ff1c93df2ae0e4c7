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

/**
 * The same rule as `storedTracking` of decision.ts, because this statement reads the domain's settings itself;
 * fast-path.test.ts compares both. `request` has the email's settings.
 */
const TRACKING = `case when request.tracking_base is not null then
           nullif(concat_ws('+', case when coalesce(request.track_opens, domain.track_opens) then 'opens' end,
                                 case when coalesce(request.track_clicks, domain.track_clicks) then 'clicks' end),
                  '') || ':' || request.tracking_base end`;

const WINDOW = `cross join lateral (${limitWindow('not limit_window.has_blocks')}) limit_window`;

/** A block, or the limit row when no block is usable. */
const WINDOW_OR_BLOCK = `cross join lateral (${limitWindow('true', '')}) limit_row
   cross join lateral (${openWindows('limit_row')}) open_row_windows
   cross join lateral (${BLOCKS_IN_VIEW}) blocks
   cross join lateral (${FREE_BLOCK}
       union all
      select limit_window.*, null from (${limitWindow('blocks.is_by_row')}) limit_window) limit_window`;

const REMAINING_WITH_BLOCKS = `
         case when limit_window.slot is not null then limit_row.max - limit_row.used + blocks.permits
              when counts.started_at = limit_row.started_at then limit_window.max - counts.used + blocks.permits
              else limit_window.max - counts.used end`;

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
const NOT_PASSED = ['cc_list', 'bcc_list', 'reply_to', 'tags', 'template_id'];
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
  select request.*, clock.now, to_char(clock.now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as time,
         domain.id as domain_id, domain.ed25519_verified as dual_signed,
         coalesce(request.tls, domain.tls) as effective_tls,
         ${TRACKING} as tracking, limit_window.max, limit_window.length, counts.used, counts.started_at,
         counts.recipients_used,
         counts.recipients_started_at,
         ${hasBlocks ? REMAINING_WITH_BLOCKS : 'limit_window.max - counts.used'} as remaining
         ${hasBlocks ? ', limit_window.slot' : ''}
    from (select now() + skew as now from clock) clock
   cross join json_to_recordset(${SHARED.groups}::json) as request(
      group_number int, project_id uuid, environment text, project_emails int, key_id uuid, domain text,
      reply_to text[], tags jsonb, template_id uuid, tls text, track_opens boolean, track_clicks boolean,
      tracking_base text, lifetime_s int, hand_over boolean, allowed_networks text[], allowed_senders text[],
      allowed_recipients text[])
   ${hasBlocks ? WINDOW_OR_BLOCK : WINDOW}
   cross join lateral (${openWindows('limit_window')}) open_windows
   cross join lateral (select ${CURRENT_COUNTS}) counts
   cross join lateral (${VALID_API_KEY}) api_key
   cross join lateral (${VERIFIED_DOMAIN}) domain
   where request.project_emails <= limit_window.max - counts.used
     and request.project_emails <= limit_window.recipients_max - counts.recipients_used
     and not domain.is_paused
     -- The lists of the key are still those by which isForFastPath chose this path.
     and api_key.allowed_networks is not distinct from request.allowed_networks
     and api_key.allowed_senders is not distinct from request.allowed_senders
     and api_key.allowed_recipients is not distinct from request.allowed_recipients
),
candidate as (
  select request.ord, (${SHARED.ids}::uuid[])[request.ord] as id, email_group.group_number,
         email_group.project_id, email_group.environment, email_group.key_id, email_group.now,
         email_group.time, email_group.lifetime_s, email_group.hand_over, email_group.domain_id,
         email_group.dual_signed, email_group.reply_to, email_group.tags,
         email_group.template_id,
         email_group.effective_tls, email_group.tracking
    from generate_series(1, ${SHARED.emailCount}::int) as request(ord)
    join email_group on email_group.group_number = (${SHARED.groupNumbers}::int[])[request.ord]
   where not exists (select from suppressions suppression
                      where suppression.project_id = email_group.project_id
                        and suppression.environment = email_group.environment
                        and suppression.address_key = (${SHARED.addressKeys}::text[])[request.ord]
                        and ${holdsBack('email_group.now')} offset 0)
),`;

const WITHOUT_KEYS = `
accepted as materialized (select * from candidate),`;

const rememberKeySql = (response: string, condition: string) => `
remembered as (
  insert into idempotency (project_id, environment, key, fingerprint, email_id, response, expires_at)
  select project_id, environment, ${KEY['key']}, decode(${KEY['fingerprint']}, 'hex'), id, ${response},
         now + interval '24 hours'
    from candidate
   where ${KEY['key']} is not null and ${condition}
   order by 1, 2, 3
  on conflict (project_id, environment, key) do nothing
  returning email_id
),`;

const WITH_KEYS = `${rememberKeySql(
  `replace(replace(${KEY['response']}, '@created_at', candidate.time), '@status', 'queued')`,
  'true',
)}
accepted as materialized (
  select * from candidate
   where ${KEY['key']} is null or exists (select from remembered where remembered.email_id = id)
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
  update limit_blocks set permits = limit_blocks.permits - spent.count
    from spent
   where limit_blocks.project_id = spent.project_id and limit_blocks.environment = spent.environment
     and limit_blocks.slot = spent.slot
     and limit_blocks.project_id = any(${SHARED.projectIds}::uuid[])
)`;

const STORING = `
new_emails as (
  insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                      key_id, cc_list, bcc_list, reply_to, tags, template_id, open_count, worst, event_count,
                      last_event, ${EMAIL.names})
  select project_id, environment, id, now, now + lifetime_s * interval '1 second', domain_id,
         dual_signed, key_id, '{}', '{}', reply_to, tags, template_id, 1, 0, 1, 'email.queued', ${EMAIL.values}
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
  from: 'email_group',
  row: 'accepted',
  perGroup: {
    row: 'email_group',
    join: 'join accepted on accepted.group_number = email_group.group_number',
  },
  id: EVENT.byName['id']!,
  subjectId: 'accepted.id',
  seq: '1',
  type: `'email.queued'`,
  now: 'accepted.now',
})},
counted as materialized (
  select email_group.*, stored.count, stored.email_numbers
    from email_group
   cross join lateral (
      select count(*)::int as count, array_agg(accepted.ord) as email_numbers from accepted
       where accepted.group_number = email_group.group_number) stored
   where stored.count > 0
),
-- The full path inserts a row for each email; the sums are the same.
${countAccepted({
  from: 'counted',
  domain: 'domain',
  tags: 'tags',
  template: 'template_id',
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
  update limit_windows
     set used = spent.used + spent.count, started_at = spent.started_at,
         recipients_used = spent.recipients_used + spent.count,
         recipients_started_at = spent.recipients_started_at
    from spent
   where limit_windows.project_id = spent.project_id and limit_windows.environment = spent.environment
     and limit_windows.category = 'sending'
     -- uses the index for many projects, too, if the plan was made for few
     and limit_windows.project_id = any(${SHARED.projectIds}::uuid[])${hasBlocks ? ' and spent.slot is null' : ''}
)${hasBlocks ? SPENDING_BLOCKS : ''}
select counted.email_numbers, counted.domain_id, counted.dual_signed, counted.effective_tls as tls,
       counted.tracking, counted.now as created_at,
       counted.time, counted.max as "limit", counted.remaining,
       ceil(extract(epoch from counted.started_at + counted.length - counted.now))::int as reset_s,
       extract(epoch from counted.length)::int as window_s,
       (select count(*) from queued_webhooks)::int as "queuedWebhooks"
  from counted`;

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
