/**
 * Lists the recipients of a project's emails, those with the newest email first, each once: at its newest email. There
 * is no table of recipients. A page reads the list of emails, so its cost does not grow with stored mail, and a part of
 * an address uses the index of that list (list/search-blocks-store.ts).
 *
 * A page ends with the recipients of one email, so that the id of this email is the place where the next page begins.
 */
import type { Scope } from '../../core/scope.ts';
import type { Status } from '../../core/statuses.ts';
import { addressKeySql, INDEX_CONDITIONS } from '../../database/address-keys.ts';
import type { Queryable } from '../../database/database.ts';
import { addressKey, parseMailbox } from '../../mail/address.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';
import { CURRENT_STATUS, type EmailSummary } from '../email-store.ts';
import { listEmails, NO_FILTER } from '../list/email-list-store.ts';

export type RecipientSummary = {
  address: string;
  lastEmailId: string;
  lastEmailAt: Date;
  /** The status of this recipient in its newest email. */
  lastStatus: Status;
  /** null: not suppressed. */
  suppression: SuppressionReason | null;
};

export type RecipientPage = {
  rows: RecipientSummary[];
  hasMore: boolean;
  /** The last email that was read, or null at the end of the list. */
  scannedUntil: string | null;
};

/** @property after the id of an email: the page has only recipients whose newest email is older */
export type RecipientQuery = { part: string | null; after: string | null; limit: number };

const EMAILS_AT_ONCE = 200;
/** Reads for one page. So many emails to a few addresses make a short page. */
const READS_MAX = 10;

type Found = { key: string; address: string; emailId: string; createdAt: Date };

export async function listRecipients(
  db: Queryable,
  scope: Scope,
  { part, after, limit }: RecipientQuery,
): Promise<RecipientPage> {
  const listed = new Map<string, Found>();
  const seen = new Set<string>();
  const filter = { ...NO_FILTER, toPart: part };
  let place = after;
  for (let reads = 0; reads < READS_MAX; reads += 1) {
    const page = { limit: EMAILS_AT_ONCE, after: place, before: null };
    const { rows: emails, hasMore, scannedUntil } = await listEmails(db, scope, { page, filter });
    const found = emails.flatMap((email) => recipientsOf(email, part, seen));
    const repeated = after === null ? null : await findWithNewer(db, scope, { found, after });
    for (const [index, { id }] of emails.entries()) {
      for (const one of found.filter(({ emailId, key }) => emailId === id && !repeated?.has(key)))
        listed.set(one.key, one);
      place = id;
      const isLast = index === emails.length - 1 && !hasMore;
      if (listed.size >= limit && !isLast) return pageOf(db, scope, { listed, place });
    }
    if (!hasMore) return pageOf(db, scope, { listed, place: null });
    place = scannedUntil ?? place;
    // A search without an index has read 50,000 emails.
    if (scannedUntil !== null) break;
  }
  return pageOf(db, scope, { listed, place });
}

/** Returns the recipients with the part that no newer email of the page has, and notes them as seen. */
function recipientsOf(email: EmailSummary, part: string | null, seen: Set<string>): Found[] {
  const wanted = part?.toLowerCase() ?? '';
  return [...email.to, ...email.cc, ...email.bcc].flatMap((text) => {
    const address = parseMailbox(text)?.address;
    if (address === undefined || !address.toLowerCase().includes(wanted)) return [];
    const key = addressKey(address);
    if (seen.has(key)) return [];
    seen.add(key);
    return [{ key, address, emailId: email.id, createdAt: email.createdAt }];
  });
}

/** Newer emails to one address that are read. If all are of the other environment, it may be listed twice. */
const NEWER_MAX = 100;

const newerSql = (index: keyof typeof INDEX_CONDITIONS): string => `
    select from (
       select email_id from recipients
        where ${INDEX_CONDITIONS[index]('asked.key')}
          and email_id >= $4::uuid and uuid_send(email_id) >= uuid_send($4::uuid)
        limit ${NEWER_MAX}) newer
     where exists (select from emails
                    where emails.project_id = $1 and emails.environment = $2 and emails.id = newer.email_id)`;

const FIND_NEWER = `
select asked.key from unnest($3::text[]) asked(key)
 where exists (${newerSql('address')})
    or exists (${newerSql('key')})`;

/** Returns those that got this email or a newer one: earlier pages have them. */
async function findWithNewer(
  db: Queryable,
  { projectId, environment }: Scope,
  { found, after }: { found: readonly Found[]; after: string },
): Promise<Set<string>> {
  if (found.length === 0) return new Set();
  const keys = found.map(({ key }) => key);
  const values = [projectId, environment, keys, after];
  const newer = await db.query<{ key: string }>(FIND_NEWER, values);
  return new Set(newer.map(({ key }) => key));
}

// The list of suppressions may be long: a join would read all of it, where a sub-select reads an entry for each row.
const DESCRIBE = `
select asked.key, recipients.status, (
    select suppressions.reason from suppressions
     where suppressions.project_id = $1 and suppressions.environment = $2
       and suppressions.address_key = asked.key collate "C"
       and (suppressions.expires_at is null or suppressions.expires_at > app_now())) as suppression
  from unnest($3::uuid[], $4::text[]) asked(email_id, key)
 cross join lateral (
    select ${CURRENT_STATUS} as status from recipients
      left join queue on queue.project_id = recipients.project_id and queue.email_id = recipients.email_id
                         and queue.position = recipients.position
      join emails email on email.project_id = $1 and email.environment = $2 and email.id = asked.email_id
     where recipients.project_id = $1 and recipients.email_id = asked.email_id
       and ${addressKeySql('recipients')} = asked.key
     order by recipients.position limit 1) recipients`;

type Described = { key: string; status: Status; suppression: SuppressionReason | null };

async function pageOf(
  db: Queryable,
  { projectId, environment }: Scope,
  { listed, place }: { listed: ReadonlyMap<string, Found>; place: string | null },
): Promise<RecipientPage> {
  const found = [...listed.values()];
  const values = [
    projectId,
    environment,
    found.map(({ emailId }) => emailId),
    found.map(({ key }) => key),
  ];
  const described = found.length === 0 ? [] : await db.query<Described>(DESCRIBE, values);
  const byKey = new Map(described.map((one) => [one.key, one]));
  // Retention may remove an email meanwhile.
  const rows = found.flatMap(({ key, address, emailId, createdAt }): RecipientSummary[] => {
    const state = byKey.get(key);
    if (state === undefined) return [];
    const { status: lastStatus, suppression } = state;
    return [{ address, lastEmailId: emailId, lastEmailAt: createdAt, lastStatus, suppression }];
  });
  return { rows, hasMore: place !== null, scannedUntil: place };
}
