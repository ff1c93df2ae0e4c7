/**
 * Reads the history of an address over any projects: the events of the emails to it, and its additions to suppression
 * lists and removals.
 *
 * The cost does not grow with the stored mail. In each project it reads at most 50,000 index entries of mail to the
 * address, and then the events of the newest `limit` emails.
 */
import type { Environment } from '../../core/scope.ts';
import {
  type AddressIndex,
  INDEX_CONDITIONS,
  findAddressIndexes,
  addressKeySql,
} from '../../database/address-keys.ts';
import { isSimulated } from '../../suppressions/held-back-store.ts';
import type { Queryable } from '../../database/database.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';

export type AddressLogEntry = {
  at: Date;
  projectId: string;
  environment: Environment;
  emailId: string | null;
  /** Type of the event, or `suppression.added` and `suppression.removed`. */
  type: string;
  code: number | null;
  enhancedCode: string | null;
  message: string | null;
  mx: string | null;
  category: string | null;
  blame: string | null;
  advice: string | null;
  /** Why an address was suppressed, and who changed the entry; null for other events. */
  reason: SuppressionReason | null;
  by: string | null;
};

/** `addressKey` is a result of mail/address.ts. `environment` null means both. */
export type AddressLogQuery = {
  projectIds: readonly string[];
  environment: Environment | null;
  addressKey: string;
  limit: number;
};

/** Limit for one email and recipient. Retries continue for days, and a mailbox may be full for all of them. */
const EVENTS_PER_EMAIL_MAX = 200;

const SCAN_MAX = 50_000;

// Same bound as scanIndexSql in emails/list/scan-sql.ts. The indexes sort the emails of one project to the address.
const newestEmailsSql = (index: AddressIndex): string => `
select $1::uuid as "projectId", id from (
  select distinct on (place) email_id as id, uuid_send(email_id) as place from recipients
   where ${INDEX_CONDITIONS[index]('$2')}
   order by place desc limit ${SCAN_MAX}) scanned
 limit $3`;

const LOG = `
with sent as (
  select events.* from unnest($5::uuid[], $6::uuid[]) mail(project_id, email_id)
   cross join lateral (
     select array_agg(recipients.position) as positions from recipients
      where recipients.project_id = mail.project_id and recipients.email_id = mail.email_id
        and ${addressKeySql('recipients')} = $2::text) own
   cross join lateral (
     select events.created_at as at, events.project_id, events.environment, events.subject_id as email_id,
            events.type,
            events.data -> 'smtp' as smtp, events.data -> 'reason' as reason
       from events
      where events.project_id = mail.project_id and events.subject_id = mail.email_id
        and (events.position = any(own.positions) or events.position is null)
        and ($3::text is null or events.environment = $3::text)
      order by events.seq desc
      limit ${EVENTS_PER_EMAIL_MAX}) events
),
suppressed as (
  select suppression_history.* from unnest($1::uuid[]) asked(project_id)
   cross join unnest(array['live', 'test']) mode(environment)
   cross join lateral (
     select suppression_history.at, suppression_history.project_id, suppression_history.environment,
            suppression_history.source_email_id as email_id,
            'suppression.' || suppression_history.action as type, suppression_history.reason,
            suppression_history.by
       from suppression_history
      where suppression_history.project_id = asked.project_id
        and suppression_history.environment = mode.environment
        and suppression_history.address_key = $2::text collate "C"
      order by suppression_history.at desc
      limit $4) suppression_history
   where $3::text is null or mode.environment = $3::text
)
select at, project_id as "projectId", environment, email_id as "emailId", type,
       (smtp ->> 'code')::int as code, smtp ->> 'enhanced_code' as "enhancedCode",
       smtp ->> 'message' as message,
       smtp ->> 'mx' as mx, reason ->> 'category' as category, reason ->> 'blame' as blame,
       reason ->> 'advice' as advice, null::text as reason, null::text as by
  from sent
 union all
select at, project_id, environment, email_id, type, null, null, null, null, null, null, null, reason, by
  from suppressed
 order by at desc, type
 limit $4`;

type FoundEmail = { projectId: string; id: string };

export async function readAddressLog(
  db: Queryable,
  { projectIds, environment, addressKey, limit }: AddressLogQuery,
): Promise<AddressLogEntry[]> {
  // Keyed by id, because an email may have several recipients with this key.
  const found = new Map<string, FoundEmail>();
  for (const projectId of projectIds) {
    for (const index of await findAddressIndexes(db, { projectId, key: addressKey })) {
      const newest = await db.query<FoundEmail>(newestEmailsSql(index), [
        projectId,
        addressKey,
        limit,
      ]);
      for (const mail of newest) found.set(mail.id, mail);
    }
  }
  const mail = [...found.values()]
    .toSorted((one, other) => (one.id < other.id ? 1 : -1))
    .slice(0, limit);
  return db.query<AddressLogEntry>(LOG, [
    projectIds,
    addressKey,
    environment,
    limit,
    mail.map(({ projectId }) => projectId),
    mail.map(({ id }) => id),
  ]);
}

export type ActiveSuppression = {
  projectId: string;
  environment: Environment;
  reason: SuppressionReason;
  createdAt: Date;
  expiresAt: Date | null;
  sourceEmailId: string | null;
  /** Entries of simulator addresses hold back no mail. */
  isSimulated: boolean;
};

const ACTIVE_SUPPRESSIONS = `
select suppression.project_id as "projectId", suppression.environment, suppression.reason,
       suppression.created_at as "createdAt",
       suppression.expires_at as "expiresAt", suppression.source_email_id as "sourceEmailId",
       ${isSimulated('suppression.')} as "isSimulated"
  from suppressions suppression
 where suppression.project_id = any($1::uuid[]) and suppression.environment in ('live', 'test')
   and suppression.address_key = $2::text collate "C"
   and ($3::text is null or suppression.environment = $3::text)
   and (suppression.expires_at is null or suppression.expires_at > app_now())
 order by suppression.created_at desc`;

export function findActiveSuppressions(
  db: Queryable,
  { projectIds, environment, addressKey }: Omit<AddressLogQuery, 'limit'>,
): Promise<ActiveSuppression[]> {
  return db.query<ActiveSuppression>(ACTIVE_SUPPRESSIONS, [projectIds, addressKey, environment]);
}
