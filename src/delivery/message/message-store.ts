/** Loads stored messages for delivery, with or without their content. */
import type { Environment, Scope } from '../../core/scope.ts';
import { type Address, domainOf, type Mailbox, parseMailbox } from '../../mail/address.ts';
import { messageIdOf } from '../../mail/compose.ts';
import type { Dsn } from '../../mail/dsn-parameters.ts';
import type { Attachment, Email } from '../../mail/email.ts';
import { parseTracking } from '../../mail/links/tracking-link.ts';
import type { Queryable } from '../../database/database.ts';

/** A stored email. Its bytes depend only on this and the domain's keys (delivery/message/message-builder.ts). */
export type StoredMessage = Email & {
  projectId: string;
  environment: Environment;
  id: string;
  createdAt: Date;
  scheduledAt: Date | null;
  /** When delivery ends. Like `scheduledAt` it no longer changes after an attempt may have begun. */
  expiresAt: Date;
  domainId: string;
  dualSigned: boolean;
};

export type MessageHead = Omit<StoredMessage, 'html' | 'text' | 'attachments' | 'submitted'> & {
  submitted: { messageId: string } | null;
};

export function headOf(message: StoredMessage): MessageHead {
  const { html: _html, text: _text, attachments: _attachments, submitted, ...head } = message;
  return { ...head, submitted: submitted && { messageId: submitted.messageId } };
}

type EmailKey = Scope & { id: string };

const LOAD = (join: 'join' | 'left join', content = ''): string => `
select emails.project_id, emails.environment, emails.id, emails.created_at, emails.scheduled_at,
       emails.expires_at,
       emails.domain_id, emails.dual_signed, emails.from_address, emails.from_name, emails.to_list,
       emails.cc_list, emails.reply_to,
       emails.subject, emails.tags, emails.metadata, contents.headers,
       contents.unsubscribe_url, contents.tls, contents.tracking, contents.dsn, contents.traceparent, emails.message_id${content}
  from emails
  ${join} contents
    on contents.project_id = emails.project_id and contents.email_id = emails.id
    and contents.email_id = any($3::uuid[])
 where emails.project_id = any($1::uuid[]) and emails.environment = any($2::text[])
   and emails.id = any($3::uuid[])`;

const LOAD_HEADS = LOAD('left join');
const LOAD_MESSAGES = LOAD(
  'join',
  `, coalesce(contents.html, contents.large_html) as html, contents.body_text, contents.attachments,
       contents.raw`,
);

type HeadRow = {
  project_id: string;
  environment: Environment;
  id: string;
  created_at: Date;
  scheduled_at: Date | null;
  expires_at: Date;
  domain_id: string;
  dual_signed: boolean;
  from_address: Address;
  from_name: string | null;
  to_list: string[];
  cc_list: string[];
  reply_to: string[];
  subject: string;
  tags: { name: string; value: string }[];
  metadata: Record<string, string>;
  headers: [string, string][] | null;
  unsubscribe_url: string | null;
  tls: Email['tls'];
  tracking: string | null;
  dsn: Dsn | null;
  traceparent: string | null;
  message_id: string | null;
};

type MessageRow = HeadRow & {
  html: string | null;
  body_text: string | null;
  attachments: Attachment[] | null;
  raw: Buffer | null;
};

/**
 * Returns the messages with these ids, by id. Ids are unique across scopes; each message has its scope. Leaves out a
 * message with a mailbox that cannot be parsed, so that its delivery fails like that of an email without content.
 */
export async function loadMessages(
  db: Queryable,
  emails: readonly EmailKey[],
): Promise<Map<string, StoredMessage>> {
  const statement = { name: 'load_messages', text: LOAD_MESSAGES };
  const rows = await db.query<MessageRow>(statement, valuesOf(emails));
  return new Map(rows.filter(hasValidMailboxes).map((row) => [row.id, messageOf(row)]));
}

/** Returns messages without their contents, also for an email whose content is missing or cannot be parsed. */
export async function loadHeads(
  db: Queryable,
  emails: readonly EmailKey[],
): Promise<Map<string, MessageHead>> {
  const statement = { name: 'load_heads', text: LOAD_HEADS };
  const rows = await db.query<HeadRow>(statement, valuesOf(emails));
  return new Map(rows.map((row) => [row.id, headOfRow(row)]));
}

function valuesOf(emails: readonly EmailKey[]): unknown[] {
  return [
    [...new Set(emails.map(({ projectId }) => projectId))],
    [...new Set(emails.map(({ environment }) => environment))],
    emails.map(({ id }) => id),
  ];
}

function headOfRow(row: HeadRow): MessageHead {
  return {
    projectId: row.project_id,
    environment: row.environment,
    id: row.id,
    createdAt: row.created_at,
    scheduledAt: row.scheduled_at,
    expiresAt: row.expires_at,
    domainId: row.domain_id,
    dualSigned: row.dual_signed,
    from: { name: row.from_name, address: row.from_address },
    to: parseMailboxes(row.to_list),
    cc: parseMailboxes(row.cc_list),
    replyTo: parseMailboxes(row.reply_to),
    subject: row.subject,
    headers: row.headers ?? [],
    tags: row.tags,
    metadata: row.metadata,
    unsubscribeUrl: row.unsubscribe_url,
    tls: row.tls,
    tracking: parseTracking(row.tracking),
    submitted: row.message_id === null ? null : { messageId: row.message_id },
    ...(row.dsn && { dsn: row.dsn }),
    ...(row.traceparent && { traceparent: row.traceparent }),
  };
}

function messageOf(row: MessageRow): StoredMessage {
  const { raw, message_id: messageId } = row;
  return {
    ...headOfRow(row),
    html: row.html,
    text: row.body_text,
    attachments: row.attachments ?? [],
    submitted: raw === null || messageId === null ? null : { raw, messageId },
  };
}

const TRACEPARENT = `
select traceparent from contents where project_id = $1 and email_id = $2`;

/** Returns the trace in which an email was accepted, or null when none was recorded, or its content is deleted. */
export async function findTraceparent(
  db: Queryable,
  { projectId, emailId }: { projectId: string; emailId: string },
): Promise<string | null> {
  const rows = await db.query<{ traceparent: string | null }>(TRACEPARENT, [projectId, emailId]);
  return rows[0]?.traceparent ?? null;
}

const SENT_SHA256 = `
select events.attempt ->> 'message_sha256' as sha256
  from events
 where events.project_id = $1 and events.environment = $2 and events.subject_id = $3 and events.position = $4
   and events.attempt ->> 'message_sha256' is not null
 order by events.seq desc limit 1`;

/** Returns the hash of the message that the last attempt sent, or null when none was sent, or its event is deleted. */
export async function sentSha256(
  db: Queryable,
  { projectId, environment, id, position }: Scope & { id: string; position: number },
): Promise<string | null> {
  const values = [projectId, environment, id, position];
  return (await db.query<{ sha256: string }>(SENT_SHA256, values))[0]?.sha256 ?? null;
}

/** Returns the Message-ID with angle brackets. */
export function messageIdIn({
  submitted,
  id,
  from,
}: Pick<MessageHead, 'submitted' | 'id' | 'from'>): string {
  return submitted?.messageId ?? messageIdOf(id, domainOf(from.address));
}

/** Stored mailboxes were parsed at acceptance. One that cannot be parsed was changed in the database. */
function hasValidMailboxes({ from_address, to_list, cc_list, reply_to }: HeadRow): boolean {
  const lists = [to_list, cc_list, reply_to];
  return (
    parseMailbox(from_address) !== null &&
    lists.every((texts) => parseMailboxes(texts).length === texts.length)
  );
}

function parseMailboxes(texts: readonly string[]): Mailbox[] {
  return texts.flatMap((text) => parseMailbox(text) ?? []);
}
