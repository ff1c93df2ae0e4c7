/**
 * Whom a return path names: by the domain it stands on to the projects that have it, and from there
 * to the email by its key. No partition is scanned, and the token's MAC was checked before.
 */
import type { Environment } from '../core/scope.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { domainOf, parseMailbox } from '../mail/address.ts';
import { messageIdOf } from '../mail/compose.ts';
import type { Queryable } from './postgres/database.ts';
import type { ToldEmail } from './event-data.ts';

/** Reports come back within days; who mails a return path later than this found it somewhere. */
export const RETURN_PATH_VALID_DAYS = 45;

export type SentRecipient = {
  projectId: string;
  environment: Environment;
  position: number;
  address: string;
  status: StoredStatus;
  email: ToldEmail;
  /** Its return path is valid no longer. */
  isTooOld: boolean;
};

// Domains that were removed too: what they sent may still come back.
const FIND = `
select e.project_id as "projectId", e.environment, r.position, r.address, r.status, e.id,
       e.from_address as "fromAddress", e.from_name as "fromName", e.to_list as "toList", e.subject,
       e.tags, e.metadata, e.message_id as "messageId",
       greatest(e.created_at, e.scheduled_at) + ${RETURN_PATH_VALID_DAYS} * interval '1 day'
         < app_now() as "isTooOld"
  from (select distinct project_id, environment from domains where name = $1) d
 cross join lateral (
    select * from emails e
     where e.project_id = d.project_id and e.environment = d.environment and e.id = $2::uuid
     offset 0) e
 cross join lateral (
    select * from recipients r
     where r.project_id = d.project_id and r.email_id = $2::uuid and r.position = $3
     offset 0) r
 limit 1`;

type Row = Omit<SentRecipient, 'email'> & {
  id: string;
  fromAddress: string;
  fromName: string | null;
  toList: string[];
  subject: string;
  tags: ToldEmail['tags'];
  metadata: ToldEmail['metadata'];
  messageId: string | null;
};

/** Null when it was never ours, or is gone by now. */
export async function findSentRecipient(
  db: Queryable,
  { domain, emailId, position }: { domain: string; emailId: string; position: number },
): Promise<SentRecipient | null> {
  const statement = { name: 'find_sent_recipient', text: FIND };
  const [row] = await db.query<Row>(statement, [domain, emailId, position]);
  if (row === undefined) return null;
  const { projectId, environment, address, status, isTooOld } = row;
  const from = { name: row.fromName, address: mailbox(row.fromAddress).address };
  return {
    projectId,
    environment,
    position: row.position,
    address,
    status,
    isTooOld,
    email: {
      id: row.id,
      from,
      to: row.toList.map(mailbox),
      subject: row.subject,
      tags: row.tags,
      metadata: row.metadata,
      messageId: row.messageId ?? messageIdOf(row.id, domainOf(from.address)),
    },
  };
}

/** Stored mailboxes were parsed when they were accepted; one that is not is a bug. */
function mailbox(text: string) {
  const parsed = parseMailbox(text);
  if (!parsed) throw new Error('a stored mailbox cannot be parsed');
  return parsed;
}

const HAS_DOMAIN = `select 1 from domains where name = $1 and deleted_at is null limit 1`;

/** Whether some project has this sending domain at present. */
export async function hasDomain(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.query({ name: 'has_domain', text: HAS_DOMAIN }, [name]);
  return rows.length > 0;
}
