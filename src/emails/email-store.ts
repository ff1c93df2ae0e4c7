/**
 * Reads one email with its recipients and its timeline. `keyId` restricts to emails sent by this key.
 * list/email-list-store.ts lists them.
 */
import type { EventType } from '../core/events.ts';
import { emailStatus, type Status } from '../core/statuses.ts';
import type { Environment, Scope } from '../core/scope.ts';
import type { Address } from '../mail/address.ts';
import type { Reason } from '../mail/replies/meanings.ts';
import type { Queryable } from '../database/database.ts';
import { EVENT_DATA, EVENT_EMAIL } from '../events/event-store.ts';
import { MIB } from '../lib/units.ts';

export type EmailSummary = {
  id: string;
  environment: Environment;
  createdAt: Date;
  scheduledAt: Date | null;
  sentAt: Date | null;
  completedAt: Date | null;
  fromAddress: Address;
  fromName: string | null;
  to: string[];
  cc: string[];
  bcc: string[];
  replyTo: string[];
  subject: string;
  messageId: string | null;
  tags: { name: string; value: string }[];
  metadata: Record<string, string>;
  lastEvent: EventType;
  status: Status;
};

/** In the API's format. The database builds it. */
export type RecipientView = {
  address: string;
  kind: 'to' | 'cc' | 'bcc';
  status: Status;
  attempts: number;
  next_attempt_at: string | null;
  completed_at: string | null;
  reason: Reason | null;
  smtp: {
    code: number | null;
    enhanced_code: string | null;
    message: string;
    mx: string | null;
    ip: string | null;
    tls: { version: string; cipher: string; verified: boolean; problem?: string | null } | null;
    tls_policy?: string | null;
  } | null;
};

export type EmailDetail = EmailSummary & {
  /**
   * Length of html, text and the part of `raw` that is read. The three are null when it exceeds the requested limit.
   */
  contentBytes: number;
  html: string | null;
  text: string | null;
  /** The beginning of a submitted message, as it arrived. */
  raw: Buffer | null;
  /** In the stored form. */
  tracking: string | null;
  recipients: RecipientView[];
};

export type TimelineEvent = {
  id: string;
  number: number;
  type: EventType;
  createdAt: Date;
  recipient: string | null;
  data: Record<string, unknown>;
  /** Has the SMTP dialogue; null unless the event ended an attempt. */
  attempt: Record<string, unknown> | null;
};

/** An email and the caller's restrictions: the key that sent it and its domain, each null when unrestricted. */
export type EmailRef = Scope & { id: string; keyId: string | null; domain: string | null };

/** Columns of the row `email`. Needs JOIN_OPEN_STATUSES. */
export const SUMMARY_COLUMNS = `email.id, email.environment, email.created_at as "createdAt",
       email.scheduled_at as "scheduledAt", email.sent_at as "sentAt", email.completed_at as "completedAt",
       email.from_address as "fromAddress", email.from_name as "fromName", email.to_list as "to",
       email.cc_list as "cc", email.bcc_list as "bcc", email.reply_to as "replyTo", email.subject,
       email.message_id as "messageId", email.tags,
       email.metadata, email.last_event as "lastEvent", email.worst, open.statuses as open`;

/**
 * The status of a row of `recipients` of `email`: `sending` while a worker has leased it, and `queued` after its
 * scheduled time. No statement stores these two.
 */
export const CURRENT_STATUS = `case when queue.holder is not null then 'sending'
                       when recipients.status <> 'scheduled' then recipients.status
                       when email.scheduled_at <= app_now() then 'queued'
                       else recipients.status end`;

export const JOIN_OPEN_STATUSES = `
  left join lateral (
    select array_agg(distinct ${CURRENT_STATUS}) as statuses
      from recipients
      left join queue on queue.project_id = recipients.project_id and queue.email_id = recipients.email_id
                         and queue.position = recipients.position
     where email.open_count > 0 and recipients.project_id = email.project_id
       and recipients.email_id = email.id
       and recipients.status in ('scheduled', 'queued', 'deferred')) open on true`;

export type SummaryRow = Omit<EmailSummary, 'status'> & { worst: number; open: Status[] | null };

export function withStatus<Row extends SummaryRow>({ worst, open, ...row }: Row) {
  return { ...row, status: emailStatus(new Set(open ?? []), worst) };
}

/**
 * The queue is authoritative for an open recipient: a release without an attempt changes only the queue. Mail on hold
 * has no next attempt.
 */
const NEXT_ATTEMPT_AT = `case when queue.held then null
                       when queue.holder is null then coalesce(queue.due_at, recipients.next_attempt_at)
                       else recipients.next_attempt_at end`;

/**
 * Metadata of an email whose content nobody reads here: it has a link that lets its reader in. A sender who sets it in
 * a request only hides what that sender has sent.
 */
export const CONCEALED_METADATA = { letterhaus_content: 'concealed' } as const;

const IS_CONCEALED = `coalesce(email.metadata ->> 'letterhaus_content' = 'concealed', false)`;

const CONCEALED = `
select from emails email
 where email.project_id = $1 and email.environment = $2 and email.id = $3 and ${IS_CONCEALED}`;

/** Returns whether the content of this email is shown to nobody. */
export async function isConcealed(
  db: Queryable,
  { projectId, environment, id }: Scope & { id: string },
): Promise<boolean> {
  return (await db.query(CONCEALED, [projectId, environment, id])).length > 0;
}

/** The text parts precede the attachments, so this is enough to show an email. */
const RAW_BYTES_READ = 2 * MIB;

/** One of the two columns is null (accept/store/columns.ts). */
const HTML = 'coalesce(contents.html, contents.large_html)';

/** PostgreSQL knows the lengths without reading the values. */
const CONTENT_BYTES = `
       coalesce(octet_length(${HTML}), 0) + coalesce(octet_length(contents.body_text), 0)
       + least(coalesce(octet_length(contents.raw), 0), ${RAW_BYTES_READ})`;

const FIND = `
select ${SUMMARY_COLUMNS}, contents.tracking, content.bytes as "contentBytes",
       case when content.bytes <= $6 then ${HTML} end as html,
       case when content.bytes <= $6 then contents.body_text end as text,
       case when content.bytes <= $6 then substring(contents.raw from 1 for ${RAW_BYTES_READ}) end as raw,
       (select json_agg(json_build_object(
                 'address', recipients.address, 'kind', recipients.kind,
                 'status', ${CURRENT_STATUS},
                 'attempts', recipients.attempts, 'next_attempt_at', wire_time(${NEXT_ATTEMPT_AT}),
                 'completed_at', wire_time(recipients.completed_at), 'reason', recipients.reason, 'smtp',
                 recipients.smtp)
                 order by recipients.position)
          from recipients
          left join queue on queue.project_id = recipients.project_id and queue.email_id = recipients.email_id
                             and queue.position = recipients.position
         where recipients.project_id = $1 and recipients.email_id = $3) as recipients
  from emails email${JOIN_OPEN_STATUSES}
  left join contents on contents.project_id = email.project_id and contents.email_id = email.id
       and contents.email_id = $3 and not (${IS_CONCEALED})
 cross join lateral (select (${CONTENT_BYTES})::int as bytes) content
 where email.project_id = $1 and email.environment = $2 and email.id = $3
   and ($4::uuid is null or email.key_id = $4)
   and ($5::text is null or right(email.from_address, length($5) + 1) = '@' || $5)`;

export const CONTENT_BYTES_UNLIMITED = 2 ** 31 - 1;

/**
 * Returns the email with its recipients; null when it does not exist for the caller.
 * @param contentBytesMax longer content is not read
 */
export async function findEmail(
  db: Queryable,
  ref: EmailRef,
  contentBytesMax = CONTENT_BYTES_UNLIMITED,
): Promise<EmailDetail | null> {
  const values = [...valuesOf(ref), contentBytesMax];
  const [row] = await db.query<SummaryRow & Omit<EmailDetail, 'status'>>(FIND, values);
  return row ? withStatus(row) : null;
}

const EXISTS = `
select from emails
 where project_id = $1 and environment = $2 and id = $3 and ($4::uuid is null or key_id = $4)
   and ($5::text is null or right(from_address, length($5) + 1) = '@' || $5)`;

export async function emailExists(db: Queryable, ref: EmailRef): Promise<boolean> {
  return (await db.query(EXISTS, valuesOf(ref))).length > 0;
}

const LAST_REASON = `
select reason ->> 'category' as category, reason ->> 'advice' as advice from recipients
 where project_id = $1 and email_id = $2 and position = $3 and reason is not null`;

/** Returns why the last attempt at a recipient failed, or null when none failed. */
export async function findLastReason(
  db: Queryable,
  { projectId, emailId, position }: { projectId: string; emailId: string; position: number },
): Promise<Pick<Reason, 'category' | 'advice'> | null> {
  const which = [projectId, emailId, position];
  const [row] = await db.query<Pick<Reason, 'category' | 'advice'>>(LAST_REASON, which);
  return row ?? null;
}

const COUNT_DOUBTS = `
select count(*)::int as doubts from events
 where events.project_id = $1 and events.environment = $2 and events.subject_id = $3 and events.position = $4
   and events.attempt ->> 'in_doubt' = 'true'`;

/** Counts the attempts after which the receiver may have the message. */
export async function countInDoubt(
  db: Queryable,
  { projectId, environment, emailId, position }: Scope & { emailId: string; position: number },
): Promise<number> {
  const which = [projectId, environment, emailId, position];
  return (await db.query<{ doubts: number }>(COUNT_DOUBTS, which))[0]?.doubts ?? 0;
}

const TIMELINE = `
select events.id, events.seq as number, events.type, events.created_at as "createdAt",
       recipients.address as recipient,
       ${EVENT_DATA('events')} as data, events.attempt
  from events${EVENT_EMAIL('events')}
  left join recipients on recipients.project_id = $1 and recipients.email_id = $3
       and recipients.position = events.position
 where events.project_id = $1 and events.environment = $2 and events.subject_id = $3 and events.seq > $4
 order by events.seq
 limit $5`;

/** Returns the events after number `page.after`, oldest first. */
export async function listTimeline(
  db: Queryable,
  ref: EmailRef,
  page: { after: number; limit: number },
): Promise<TimelineEvent[]> {
  const { projectId, environment, id } = ref;
  return db.query<TimelineEvent>(TIMELINE, [projectId, environment, id, page.after, page.limit]);
}

function valuesOf({ projectId, environment, id, keyId, domain }: EmailRef): unknown[] {
  return [projectId, environment, id, keyId, domain];
}
