/**
 * One email as its owner sees it: the record with its recipients, its timeline. Lists are in
 * email-list.ts. `keyId`, where it is given, is a key that may only see what it sent itself.
 */
import type { EventType } from '../core/events.ts';
import { emailStatus, type Status } from '../core/statuses.ts';
import type { Environment, Scope } from '../core/scope.ts';
import type { Address } from '../mail/address.ts';
import type { Blame, Category } from '../mail/replies/meanings.ts';
import type { Queryable } from './postgres/database.ts';

/** What lists show, too. */
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
  /** null: made from the id. */
  messageId: string | null;
  tags: { name: string; value: string }[];
  metadata: Record<string, string>;
  lastEvent: EventType;
  status: Status;
};

/** As the wire shows it: made by the database in one go. */
export type RecipientView = {
  address: string;
  kind: 'to' | 'cc' | 'bcc';
  status: Status;
  attempts: number;
  next_attempt_at: string | null;
  completed_at: string | null;
  /** Why it ended or waits. */
  reason: { category: Category; blame: Blame; advice: string } | null;
  /** The last thing that was heard about it. */
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
  html: string | null;
  /** null: derived from the html when it was composed. */
  text: string | null;
  /** The beginning of a message that goes on as it was written. */
  raw: Buffer | null;
  recipients: RecipientView[];
};

export type TimelineEvent = {
  id: string;
  /** 1, 2, 3, … within the email. */
  number: number;
  type: EventType;
  createdAt: Date;
  /** null: about the email as a whole. */
  recipient: string | null;
  data: Record<string, unknown>;
  /** The transcript, when the event ended an attempt. */
  attempt: Record<string, unknown> | null;
};

/** An email and who may see it: the key that sent it, keys for its domain; null: any. */
export type EmailRef = Scope & { id: string; keyId: string | null; domain: string | null };

/** `e` is an email; goes with OPEN_STATUSES. */
export const SUMMARY_COLUMNS = `e.id, e.environment, e.created_at as "createdAt",
       e.scheduled_at as "scheduledAt", e.sent_at as "sentAt", e.completed_at as "completedAt",
       e.from_address as "fromAddress", e.from_name as "fromName", e.to_list as "to",
       e.cc_list as "cc", e.bcc_list as "bcc", e.reply_to as "replyTo", e.subject,
       e.message_id as "messageId", e.tags,
       e.metadata, e.last_event as "lastEvent", e.worst, open.statuses as open`;

/** The statuses of the open recipients of `e`; one that a worker holds is `sending`. */
export const OPEN_STATUSES = `
  left join lateral (
    select array_agg(distinct case when q.holder is null then r.status else 'sending' end)
             as statuses
      from recipients r
      left join queue q on q.email_id = r.email_id and q.position = r.position
     where e.open_count > 0 and r.project_id = e.project_id and r.email_id = e.id
       and r.status in ('scheduled', 'queued', 'deferred')) open on true`;

export type SummaryRow = Omit<EmailSummary, 'status'> & { worst: number; open: Status[] | null };

export function withStatus<Row extends SummaryRow>({ worst, open, ...row }: Row) {
  return { ...row, status: emailStatus(new Set(open ?? []), worst) };
}

/**
 * Of an open recipient the queue knows better than its row: what was given back without an attempt
 * changed only there. What is held until somebody releases it has none.
 */
const NEXT_ATTEMPT_AT = `case when q.held then null
                       when q.holder is null then coalesce(q.due_at, r.next_attempt_at)
                       else r.next_attempt_at end`;

/** Text comes before attachments; what lies beyond is not looked at to show an email. */
const RAW_BYTES_READ = 2 * 1024 * 1024;

const FIND = `
select ${SUMMARY_COLUMNS}, c.html, c.body_text as text,
       substring(c.raw from 1 for ${RAW_BYTES_READ}) as raw,
       (select json_agg(json_build_object(
                 'address', r.address, 'kind', r.kind,
                 'status', case when q.holder is null then r.status else 'sending' end,
                 'attempts', r.attempts, 'next_attempt_at', wire_time(${NEXT_ATTEMPT_AT}),
                 'completed_at', wire_time(r.completed_at), 'reason', r.reason, 'smtp', r.smtp)
                 order by r.position)
          from recipients r
          left join queue q on q.email_id = r.email_id and q.position = r.position
         where r.project_id = $1 and r.email_id = $3) as recipients
  from emails e${OPEN_STATUSES}
  left join contents c on c.project_id = e.project_id and c.email_id = e.id and c.email_id = $3
 where e.project_id = $1 and e.environment = $2 and e.id = $3
   and ($4::uuid is null or e.key_id = $4)
   and ($5::text is null or right(e.from_address, length($5) + 1) = '@' || $5)`;

/** The email with its recipients; null when it does not exist for the caller. */
export async function findEmail(db: Queryable, ref: EmailRef): Promise<EmailDetail | null> {
  const [row] = await db.query<SummaryRow & Omit<EmailDetail, 'status'>>(FIND, values(ref));
  return row ? withStatus(row) : null;
}

const EXISTS = `
select from emails
 where project_id = $1 and environment = $2 and id = $3 and ($4::uuid is null or key_id = $4)
   and ($5::text is null or right(from_address, length($5) + 1) = '@' || $5)`;

export async function emailExists(db: Queryable, ref: EmailRef): Promise<boolean> {
  return (await db.query(EXISTS, values(ref))).length > 0;
}

const LAST_CATEGORY = `
select reason ->> 'category' as category from recipients
 where project_id = $1 and email_id = $2 and position = $3`;

/** What kept a recipient from being delivered to so far; null: nothing did. */
export async function lastCategory(
  db: Queryable,
  { projectId, emailId, position }: { projectId: string; emailId: string; position: number },
): Promise<Category | null> {
  const which = [projectId, emailId, position];
  return (await db.query<{ category: Category }>(LAST_CATEGORY, which))[0]?.category ?? null;
}

const TIMELINE = `
select e.id, e.seq as number, e.type, e.created_at as "createdAt", r.address as recipient, e.data,
       e.attempt
  from events e
  left join recipients r on r.project_id = $1 and r.email_id = $3 and r.position = e.position
 where e.project_id = $1 and e.environment = $2 and e.subject_id = $3 and e.seq > $4
 order by e.seq
 limit $5`;

/** What happened to an email, oldest first, from the number behind `after`. */
export async function listTimeline(
  db: Queryable,
  ref: EmailRef,
  page: { after: number; limit: number },
): Promise<TimelineEvent[]> {
  const { projectId, environment, id } = ref;
  return db.query<TimelineEvent>(TIMELINE, [projectId, environment, id, page.after, page.limit]);
}

function values({ projectId, environment, id, keyId, domain }: EmailRef): unknown[] {
  return [projectId, environment, id, keyId, domain];
}
