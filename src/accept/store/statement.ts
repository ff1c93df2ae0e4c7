/**
 * The accept statement: stores a batch of requests in one round trip and one commit.
 *
 * The first steps, which decide what may be stored, are in candidates.ts. Most emails are stored by a
 * shorter statement, which has the same results (fast-path.ts).
 * Idempotency is `on conflict do update … returning`, in key order: `do nothing` would not return the row
 * of a batch that has just committed.
 *
 * FIND_EMAILS in accept.ts reads the stored rows after a lost connection and has to match this statement.
 *
 * It returns one row per request, in `ord`:
 * accepted | replayed | key_refused | schedule_refused | domain_refused | suppressed | limited.
 */
import { candidates } from './candidates.ts';
import { storedKeyOf } from '../../database/address-keys.ts';
import { FAN_OUT } from '../../events/event-store.ts';
import { WRITING_BLOCKS } from './limit-blocks.ts';
import { COUNT_ACCEPTED } from '../../stats/stats-store.ts';
import { failpoint } from '../../lib/failpoint.ts';
import type { Environment, Scope } from '../../core/scope.ts';
import type { Limit, LimitState } from '../../core/limits.ts';
import { type Address, domainOf, formatMailbox, type Mailbox } from '../../mail/address.ts';
import type { Attachment, Email } from '../../mail/email.ts';
import { noticeFor } from '../../mail/notice.ts';
import { type Tracking, trackingOf } from '../../mail/links/tracking-link.ts';
import { binaryArray } from '../../database/binary-array.ts';
import type { Queryable, Statement } from '../../database/database.ts';

/**
 * A request to store. Its ids are made before the statement, so that `findStored` in accept.ts can look
 * for them after a lost connection.
 */
export type NewEmail = Email & {
  bcc: readonly Mailbox[];
  projectId: string;
  environment: Environment;
  keyId: string;
  id: string;
  eventId: string;
  /** When to send it; null or in the past (by the database's clock): at once. */
  scheduledAt: Date | null;
  lifetimeS: number;
  recipients: readonly NewRecipient[];
  /** `data` of the email.queued event; a scheduled email changes it to email.scheduled. */
  eventData: object;
  /** The response's body; `@created_at` and `@status` are placeholders for values of the database. */
  response: string;
  /** Whether this worker holds the recipients at once, without a poll of the queue. */
  handOver: boolean;
  idempotency: { key: string; fingerprint: string } | null;
  sizeBytes: number;
  /** Absent or false: refused when every recipient is suppressed. */
  acceptsSuppressed?: boolean;
};

export type NewRecipient = {
  position: number;
  address: Address;
  addressKey: string;
  kind: 'to' | 'cc' | 'bcc';
  destination: string;
  /** The provider if it is known, else the destination. */
  provider: string;
  eventId: string;
};

export type AcceptRow = {
  outcome:
    | 'accepted'
    | 'replayed'
    | 'key_refused'
    /** More than SCHEDULE_DAYS_MAX ahead. */
    | 'schedule_refused'
    | 'domain_refused'
    | 'suppressed'
    | 'limited'
    /** Not stored, because the batch is refused as a whole; this email is valid. */
    | 'withheld'
    /** Not stored; the reason was lost with the connection, so the client should retry. */
    | 'unknown';
  /** The response's body, when accepted or replayed. */
  response: string | null;
  /** Hex; of the original request of the key, when replayed. */
  fingerprint: string | null;
  domainId: string | null;
  dualSigned: boolean;
  /** The email's setting, else that of its domain; null: opportunistic. */
  tls: Email['tls'];
  /** As asked for by the email, else by its domain. */
  tracking: Tracking;
  createdAt: Date;
  /** Positions of suppressed recipients, which end at once. */
  suppressedPositions: readonly number[];
  /** The lease under which this worker holds the recipients; null: they wait in the queue table. */
  holder: string | null;
  /** Of the limit on recipients if that one refuses, else of the limit on emails. */
  limit: LimitState;
};

/** The response's body with the database's values; `row` is `checked` or `numbered`. */
const answerOf = (row: string): string => `
         replace(replace(${row}.response, '@created_at', wire_time(t.now)), '@status',
                 case when ${row}.is_scheduled then 'scheduled' else 'queued' end)`;

/** The result for an idempotency key in use: the earlier row, unless its 24 hours are over. */
export const KEEP_EARLIER = `
  on conflict (project_id, environment, key) do update
     set (fingerprint, email_id, response, expires_at) =
         (select e.fingerprint, e.email_id, e.response, e.expires_at
            from (values (m.fingerprint, m.email_id, m.response, m.expires_at, true),
                         (excluded.fingerprint, excluded.email_id, excluded.response,
                          excluded.expires_at, false))
                 as e(fingerprint, email_id, response, expires_at, earlier), t
           where e.earlier = (m.expires_at > t.now))`;

const ACCEPTED = `
remembered as (
  insert into idempotency as m (project_id, environment, key, fingerprint, email_id, response,
                                expires_at)
  select n.project_id, n.environment, n.idempotency_key, decode(n.fingerprint, 'hex'), n.id,
         ${answerOf('n')}, t.now + interval '24 hours'
    from numbered n, t
   where n.idempotency_key is not null and n.fits_emails and n.fits_recipients
   order by n.project_id, n.environment, n.idempotency_key
  ${KEEP_EARLIER}
  returning m.project_id, m.environment, m.key, m.fingerprint, m.email_id, m.response
),
accepted as materialized (
  select n.* from numbered n
    left join remembered m on m.project_id = n.project_id and m.environment = n.environment
                          and m.key = n.idempotency_key
   where n.fits_emails and n.fits_recipients
     and (n.idempotency_key is null or m.email_id = n.id)
)`;

/** From here on html is stored uncompressed: compressing costs CPU in proportion to its length. */
const LARGE_HTML_BYTES = 8_000;

/** `html` and `large_html` of contents, one of which is null. */
export const HTML_COLUMNS = `
         case when octet_length(($2::text[])[ord]) < ${LARGE_HTML_BYTES} then ($2::text[])[ord] end,
         case when octet_length(($2::text[])[ord]) >= ${LARGE_HTML_BYTES} then ($2::text[])[ord] end`;

const SPENDING = `
-- offset 0: not flattened, so that a plan for few projects uses the index for many, too
spending as (
  update limit_windows l
     set used = w.used + w.count, started_at = w.started_at,
         recipients_used = w.recipients_used + w.recipients,
         recipients_started_at = w.recipients_started_at
    from (select w.*, s.count, s.recipients
            from spent s join current_windows w
              on w.project_id = s.project_id and w.environment = s.environment offset 0) w
   where l.project_id = w.project_id and l.environment = w.environment and l.category = 'sending'
)`;

/** @param hasBlocks as for `candidates` */
const spending = (hasBlocks: boolean): string => `
spent as materialized (
  select project_id, environment, count(*)::int as count, sum(open)::int as recipients
    from accepted group by 1, 2
),${hasBlocks ? WRITING_BLOCKS : SPENDING}`;

const STORING = `
new_emails as (
  insert into emails (project_id, environment, id, created_at, scheduled_at, expires_at, domain_id,
                      dual_signed, key_id,
                      from_address, from_key, from_name, to_list, cc_list, bcc_list, reply_to, subject, tags,
                      metadata, message_id, open_count, worst, event_count, last_event,
                      completed_at)
  select a.project_id, a.environment, a.id, t.now, case when a.is_scheduled then a.scheduled_at end,
         a.starts_at + a.lifetime_s * interval '1 second', a.domain_id, a.dual_signed, a.key_id, a.from_address, a.from_key, a.from_name, a.to_list, a.cc_list, a.bcc_list,
         a.reply_to, a.subject, a.tags, a.metadata, a.message_id, a.open,
         case when a.suppressed > 0 then 4 else 0 end, 1 + a.suppressed,
         case when a.open = 0 then 'email.suppressed'
              when a.is_scheduled then 'email.scheduled' else 'email.queued' end,
         case when a.open = 0 then t.now end
    from accepted a, t
),
new_contents as (
  insert into contents (project_id, email_id, html, large_html, body_text, headers, attachments,
                        unsubscribe_url, tls, tracking, raw, dsn)
  select project_id, id, ${HTML_COLUMNS}, ($3::text[])[ord], headers, ($4::json[])[ord],
         unsubscribe_url, effective_tls, tracking, ($8::bytea[])[ord], dsn
    from accepted
),
-- Of suppressed recipients, which end here; those of others are queued when they are settled.
new_notices as (
  insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
  select a.project_id, a.environment, a.id, r.position, 'failure', r.notice, t.now, t.now
    from t, recipient r join accepted a on a.ord = r.ord
   where r.suppressed and r.notice is not null
),
new_recipients as (
  insert into recipients (project_id, email_id, position, address, address_key, kind, status,
                          next_attempt_at, completed_at)
  select r.project_id, r.email_id, r.position, r.address, r.stored_key, r.kind,
         case when r.suppressed then 'suppressed'
              when a.is_scheduled then 'scheduled' else 'queued' end,
         case when not r.suppressed then a.starts_at end, case when r.suppressed then t.now end
    from t, recipient r join accepted a on a.ord = r.ord
),
new_queue as (
  insert into queue (project_id, email_id, position, environment, destination, provider, due_at,
                     held, holder, claim)
  select r.project_id, r.email_id, r.position, r.environment, r.destination, r.provider,
         case when x.held then t.now + a.lifetime_s * interval '1 second' else a.starts_at end,
         x.held, case when a.hand_over and not a.is_paused then $7::uuid end, 1
    from t, recipient r join accepted a on a.ord = r.ord
    -- A scheduled email of a paused domain is held at its scheduled time.
   cross join lateral (select a.is_paused and not a.is_scheduled as held) x
   where not r.suppressed
),
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, position, created_at, data)
  select e.project_id, e.environment, e.subject_id, e.seq, e.id, e.type, e.position, t.now, e.data
    from t, (
      select a.project_id, a.environment, a.id as subject_id, 1 as seq, a.event_id as id,
             case when a.is_scheduled then 'email.scheduled' else 'email.queued' end as type,
             null::smallint as position,
             case when a.is_scheduled
                  then (a.event_data::jsonb || jsonb_build_object('status', 'scheduled',
                          'scheduled_at', wire_time(a.scheduled_at)))::json
                  else a.event_data end as data
        from accepted a
      union all
      select a.project_id, a.environment, a.id,
             1 + row_number() over (partition by r.ord order by r.position)::int, r.event_id,
             'email.suppressed', r.position,
             (a.event_data::jsonb
               || jsonb_build_object('recipient', r.address, 'status', 'suppressed'))::json
        from recipient r join accepted a on a.ord = r.ord
       where r.suppressed) e
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT},${COUNT_ACCEPTED},`;

/** Writes the rows of `accepted`. @param hasBlocks as for `candidates` */
export const storing = (hasBlocks: boolean): string => `${STORING}${spending(hasBlocks)}`;

/** The state of the limit that refuses, else of the limit on emails. */
export const LIMIT_STATE = `
       x.of_recipients, w.is_left,
       case when x.of_recipients then w.recipients_max else w.max end as "limit",
       greatest(0, case when x.of_recipients
                        then w.recipients_max - w.recipients_used - coalesce(s.recipients, 0)
                        else w.max - w.used + w.elsewhere - coalesce(s.count, 0) end) as remaining,
       ceil(extract(epoch from
              case when x.of_recipients then w.recipients_started_at + w.recipients_length
                   else w.started_at + w.length end - t.now))::int as reset_s,
       extract(epoch from
              case when x.of_recipients then w.recipients_length else w.length end)::int as window_s`;

const acceptBatch = (hasBlocks: boolean): string => `
${candidates(hasBlocks)},
${ACCEPTED},
${storing(hasBlocks)}
select c.ord, ${LIMIT_STATE},
       case when x.is_accepted then 'accepted'
            when c.verdict <> 'candidate' then c.verdict
            when m.email_id is not null then 'replayed'
            else 'limited' end as outcome,
       case when x.is_accepted then ${answerOf('c')}
            else coalesce(m.response, c.replay_response) end as response,
       encode(coalesce(m.fingerprint, c.replay_fingerprint), 'hex') as fingerprint,
       case when x.is_accepted then c.domain_id end as domain_id,
       c.dual_signed, c.effective_tls as tls, c.tracking, c.is_paused, t.now as created_at,
       (select count(*) from notification_queue)::int as notified,
       case when x.is_accepted and c.suppressed > 0 then
         (select array_agg(r.position) from recipient r where r.ord = c.ord and r.suppressed)
       end as suppressed_positions
  from t, checked c
  join current_windows w on w.project_id = c.project_id and w.environment = c.environment
  left join numbered n on n.ord = c.ord
  left join spent s on s.project_id = c.project_id and s.environment = c.environment
  left join remembered m on m.project_id = c.project_id and m.environment = c.environment
                        and m.key = c.idempotency_key
 cross join lateral (
    select coalesce(n.fits_emails and n.fits_recipients
                    and (c.idempotency_key is null or m.email_id = c.id), false) as is_accepted,
           coalesce(n.fits_emails and not n.fits_recipients, false) as of_recipients) x
 order by c.ord`;

const ACCEPT = { name: 'accept', text: acceptBatch(false) };
const ACCEPT_WITH_BLOCKS = { name: 'accept_with_blocks', text: acceptBatch(true) };

export type Row = Omit<
  AcceptRow,
  'domainId' | 'dualSigned' | 'tracking' | 'createdAt' | 'suppressedPositions' | 'holder' | 'limit'
> & {
  domain_id: string | null;
  dual_signed: boolean | null;
  tracking: string | null;
  is_paused: boolean | null;
  created_at: Date;
  suppressed_positions: number[] | null;
  limit: number;
  remaining: number;
  reset_s: number;
  window_s: number;
  of_recipients: boolean;
  /** Its project has blocks, and the statement was not the one for such projects. */
  is_left: boolean;
  notified: number;
};

export type BatchOptions = {
  /** The default limit on emails per project. */
  limit: Limit;
  /** The default limit on recipients; null: 50 per email, the maximum of an email. */
  recipientLimit?: Limit | null;
  /** The lease under which accepted recipients are held; null: they wait in the queue table. */
  holder: string | null;
  /** Called when webhook deliveries were queued. */
  onNotified: () => void;
  /** Whether the limit of one of the projects is known to have blocks (limit-blocks.ts). */
  hasBlocks?: boolean;
  /** Called when it turns out that it has. */
  onBlocks?: (scope: Scope) => void;
};

/** Stores one batch in one transaction. @returns one row per email, in the order of `emails` */
export function runBatch(
  db: Queryable,
  emails: readonly NewEmail[],
  options: BatchOptions,
): Promise<AcceptRow[]> {
  return runKinds(db, { plain: ACCEPT, withBlocks: ACCEPT_WITH_BLOCKS }, { ...options, emails });
}

type Wanted = BatchOptions & {
  emails: readonly NewEmail[];
  /** The parameter after those shared by all accept statements. */
  last?: string;
};

/** The two kinds of a statement (candidates.ts). */
export type Kinds = { plain: Statement; withBlocks: Statement };

/** Runs the statement of the kind that the projects need. @returns one row per email, in order */
export async function runKinds(
  db: Queryable,
  { plain, withBlocks }: Kinds,
  wanted: Wanted,
): Promise<AcceptRow[]> {
  const { emails, holder, hasBlocks, onBlocks } = wanted;
  let rows = await runStatement(db, hasBlocks ? withBlocks : plain, wanted);
  const left = emails.filter((_, index) => rows[index]!.is_left);
  if (left.length > 0) {
    for (const email of left) onBlocks?.(email);
    rows = await runStatement(db, withBlocks, wanted);
  }
  return rows.map((row, index) => ({
    ...fromRow(row),
    holder: isHandedOver(row, emails[index]!) ? holder : null,
  }));
}

async function runStatement(db: Queryable, statement: Statement, wanted: Wanted): Promise<Row[]> {
  const { emails, limit, recipientLimit = null, holder, onNotified, last } = wanted;
  const values = [
    JSON.stringify(emails.map((email, index) => toInput(email, index, holder !== null))),
    binaryArray(
      'text',
      emails.map((email) => email.html),
    ),
    binaryArray(
      'text',
      emails.map((email) => email.text),
    ),
    binaryArray(
      'json',
      emails.map(({ attachments }) => jsonOf(attachments)),
    ),
    limit.max,
    limit.windowS,
    holder,
    binaryArray(
      'bytea',
      emails.map((email) => email.written?.raw ?? null),
    ),
    recipientLimit?.max ?? null,
    recipientLimit?.windowS ?? null,
    ...(last === undefined ? [] : [last]),
  ];
  const rows = await commitAccepted<Row>(db, { statement, values }, onNotified);
  if (rows.length !== emails.length) throw new Error('the accept statement lost a request');
  return rows;
}

/** Runs a statement that stores emails; the first row has the number of webhook deliveries that it queued. */
export async function commitAccepted<AnyRow extends { notified: number }>(
  db: Queryable,
  { statement, values }: { statement: Statement; values: readonly unknown[] },
  onNotified: BatchOptions['onNotified'],
): Promise<AnyRow[]> {
  failpoint('accept_before_commit');
  const rows = await db.query<AnyRow>(statement, values);
  failpoint('accept_after_commit');
  if ((rows[0]?.notified ?? 0) > 0) onNotified();
  return rows;
}

/** As JSON in pieces, so that no content is copied on the way: base64 needs no escaping. null: none. */
export function jsonOf(attachments: readonly Attachment[]): string[] | null {
  if (attachments.length === 0) return null;
  const pieces = attachments.flatMap(({ content, ...rest }, index) => [
    `${index === 0 ? '[' : ','}${JSON.stringify(rest).slice(0, -1)},"content":"`,
    content,
    '"}',
  ]);
  return [...pieces, ']'];
}

/** Paused mail is held in the queue table instead. */
function isHandedOver({ outcome, is_paused: isPaused }: Row, { handOver }: NewEmail): boolean {
  return outcome === 'accepted' && handOver && isPaused !== true;
}

/** The end of a recipient that is on the suppression list when the email is accepted. */
const SUPPRESSED = { status: 'suppressed', smtp: null, reason: null } as const;

export function toInput(email: NewEmail, index: number, mayHandOver: boolean): object {
  return {
    ord: index + 1,
    project_id: email.projectId,
    environment: email.environment,
    key_id: email.keyId,
    id: email.id,
    event_id: email.eventId,
    domain: domainOf(email.from.address),
    from_address: email.from.address,
    from_key: storedKeyOf(email.from) ?? undefined,
    from_name: email.from.name,
    to_list: email.to.map(formatMailbox),
    cc_list: email.cc.map(formatMailbox),
    bcc_list: email.bcc.map(formatMailbox),
    reply_to: email.replyTo.map(formatMailbox),
    subject: email.subject,
    tags: email.tags,
    metadata: email.metadata,
    headers: email.headers.length > 0 ? email.headers : undefined,
    unsubscribe_url: email.unsubscribeUrl,
    tls: email.tls,
    track_opens: email.tracking.opens ?? undefined,
    track_clicks: email.tracking.clicks ?? undefined,
    tracking_base: email.tracking.base ?? undefined,
    scheduled_at: email.scheduledAt ?? undefined,
    lifetime_s: email.lifetimeS,
    recipients: email.recipients.map((recipient) => ({
      position: recipient.position,
      address: recipient.address,
      address_key: recipient.addressKey,
      stored_key: storedKeyOf(recipient) ?? undefined,
      kind: recipient.kind,
      destination: recipient.destination,
      provider: recipient.provider,
      event_id: recipient.eventId,
      notice: email.dsn && noticeFor(email.dsn, recipient.address, SUPPRESSED)?.facts,
    })),
    event_data: email.eventData,
    response: email.response,
    hand_over: email.handOver && mayHandOver,
    idempotency_key: email.idempotency?.key,
    fingerprint: email.idempotency?.fingerprint,
    message_id: email.written?.messageId,
    accepts_suppressed: email.acceptsSuppressed || undefined,
    dsn: email.dsn,
  };
}

export function fromRow(row: Omit<Row, 'notified' | 'is_left'>): Omit<AcceptRow, 'holder'> {
  return {
    outcome: row.outcome,
    response: row.response,
    fingerprint: row.fingerprint,
    domainId: row.domain_id,
    dualSigned: row.dual_signed ?? false,
    tls: row.tls,
    tracking: trackingOf(row.tracking),
    createdAt: row.created_at,
    suppressedPositions: row.suppressed_positions ?? [],
    limit: {
      limit: row.limit,
      remaining: row.remaining,
      // A window that another worker started while this statement waited may start in its future.
      resetS: Math.min(row.reset_s, row.window_s),
      windowS: row.window_s,
      ...(row.of_recipients && { counts: 'recipients' as const }),
    },
  };
}
