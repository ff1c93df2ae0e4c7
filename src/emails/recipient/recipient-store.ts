/** Reads the delivery status of the newest emails to one address: the last reply of a mail server, and its provider. */
import type { Scope } from '../../core/scope.ts';
import type { Status } from '../../core/statuses.ts';
import {
  addressKeySql,
  findAddressIndexes,
  INDEX_CONDITIONS,
  type AddressIndex,
} from '../../database/address-keys.ts';
import type { Queryable } from '../../database/database.ts';
import type { Reason } from '../../mail/replies/meanings.ts';
import type { RecipientView } from '../email-store.ts';

export type LastReply = {
  emailId: string;
  status: Status;
  /** null until the recipient has ended. */
  provider: string | null;
  completedAt: Date | null;
  reason: Reason | null;
  smtp: NonNullable<RecipientView['smtp']>;
};

/** Emails without a reply are new or were never tried, so the newest few have one. */
const EMAILS_MAX = 100;

const lastReplySql = (index: AddressIndex): string => `
select recipients.email_id as "emailId", recipients.status, recipients.provider,
       recipients.completed_at as "completedAt", recipients.reason, recipients.smtp
  from (select distinct on (place) email_id as id, uuid_send(email_id) as place from recipients
         where ${INDEX_CONDITIONS[index]('$2')}
         order by place desc limit ${EMAILS_MAX}) newest
 cross join lateral (
    select recipients.* from recipients
     where recipients.project_id = $1 and recipients.email_id = newest.id
       and ${addressKeySql('recipients')} = $2 and recipients.smtp is not null
       and (select emails.id from emails
             where emails.project_id = $1 and emails.environment = $3 and emails.id = newest.id) is not null
     limit 1 offset 0) recipients
 order by newest.place desc
 limit 1`;

/** Returns the newest reply of a mail server about the address, or null without one. */
export async function findLastReply(
  db: Queryable,
  { projectId, environment }: Scope,
  key: string,
): Promise<LastReply | null> {
  const found: LastReply[] = [];
  for (const index of await findAddressIndexes(db, { projectId, key })) {
    const values = [projectId, key, environment];
    found.push(...(await db.query<LastReply>(lastReplySql(index), values)));
  }
  return found.toSorted((one, other) => (one.emailId < other.emailId ? 1 : -1))[0] ?? null;
}
