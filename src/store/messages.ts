/**
 * An email as it was stored: what composing it and reporting on it need. The bytes on the wire are a
 * pure function of this and the domain's keys (delivery/message.ts).
 */
import { domainOf, type Mailbox, parseMailbox } from '../mail/address.ts';
import { messageIdOf } from '../mail/compose.ts';
import type { Attachment, Email } from '../mail/email.ts';
import type { Environment, Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';

export type StoredMessage = Email & {
  projectId: string;
  environment: Environment;
  id: string;
  createdAt: Date;
  /** Until when it is tried to be delivered; never changed. */
  expiresAt: Date;
  domainId: string;
  /** Whether it carries an Ed25519 signature beside the RSA one. */
  dualSigned: boolean;
};

const LOAD = `
select e.project_id, e.environment, e.id, e.created_at, e.expires_at, e.domain_id, e.dual_signed, e.from_address,
       e.from_name, e.to_list, e.cc_list, e.reply_to, e.subject, e.tags, e.metadata, c.html,
       c.body_text, c.headers, c.attachments, c.unsubscribe_url, c.tls, c.raw, e.message_id
  from emails e
  join contents c on c.project_id = e.project_id and c.email_id = e.id
 where e.project_id = any($1::uuid[]) and e.environment = any($2::text[]) and e.id = any($3::uuid[])
   and c.email_id = any($3::uuid[])`;

type Row = {
  project_id: string;
  environment: Environment;
  id: string;
  created_at: Date;
  expires_at: Date;
  domain_id: string;
  dual_signed: boolean;
  from_address: string;
  from_name: string | null;
  to_list: string[];
  cc_list: string[];
  reply_to: string[];
  subject: string;
  tags: { name: string; value: string }[];
  metadata: Record<string, string>;
  html: string | null;
  body_text: string | null;
  headers: [string, string][] | null;
  attachments: Attachment[] | null;
  unsubscribe_url: string | null;
  tls: Email['tls'];
  raw: Buffer | null;
  message_id: string | null;
};

/** The messages with these ids, by id. Ids are unique over all scopes; each is given with its own. */
export async function loadMessages(
  db: Queryable,
  wanted: readonly (Scope & { id: string })[],
): Promise<Map<string, StoredMessage>> {
  const rows = await db.query<Row>({ name: 'load_messages', text: LOAD }, [
    [...new Set(wanted.map((one) => one.projectId))],
    [...new Set(wanted.map((one) => one.environment))],
    wanted.map((one) => one.id),
  ]);
  return new Map(rows.map((row) => [row.id, fromRow(row)]));
}

function fromRow(row: Row): StoredMessage {
  return {
    projectId: row.project_id,
    environment: row.environment,
    id: row.id,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    domainId: row.domain_id,
    dualSigned: row.dual_signed,
    from: { name: row.from_name, address: mailbox(row.from_address).address },
    to: row.to_list.map(mailbox),
    cc: row.cc_list.map(mailbox),
    replyTo: row.reply_to.map(mailbox),
    subject: row.subject,
    html: row.html,
    text: row.body_text,
    headers: row.headers ?? [],
    attachments: row.attachments ?? [],
    tags: row.tags,
    metadata: row.metadata,
    unsubscribeUrl: row.unsubscribe_url,
    tls: row.tls,
    written:
      row.raw === null || row.message_id === null
        ? null
        : { raw: row.raw, messageId: row.message_id },
  };
}

/** With its angle brackets. */
export function messageIdIn({ written, id, from }: StoredMessage): string {
  return written?.messageId ?? messageIdOf(id, domainOf(from.address));
}

/** Stored mailboxes were parsed when they were accepted; one that is not is a bug. */
function mailbox(text: string): Mailbox {
  const parsed = parseMailbox(text);
  if (!parsed) throw new Error('a stored mailbox cannot be parsed');
  return parsed;
}
