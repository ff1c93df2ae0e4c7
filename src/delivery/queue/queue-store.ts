/**
 * The rows of the queue table: their keys, the release of claimed rows, and what may have stopped a recipient.
 *
 * A claim stores its lease in `holder` and increments a counter, so outcomes of an earlier lease or claim have no
 * effect (settle/settle-store.ts). claim-store.ts claims due rows.
 */
import { failpoint } from '../../lib/failpoint.ts';
import type { Scope } from '../../core/scope.ts';
import { addressKey } from '../../mail/address.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import type { Queryable } from '../../database/database.ts';
import { createLeasedTable } from '../../database/leased-table.ts';

/**
 * True when no worker has leased the row. With `holder is null` the planner could read all waiting mail by a partial
 * index.
 */
export const IS_FREE = 'num_nulls(queue.holder) = 1';

/** Released rows keep their age up to 50 s, because claims read 60 s below their low-water mark. */
export const DUE_BY_AGE = `least(app_now(), greatest(queue.due_at, app_now() - interval '50 seconds'))`;

export type RecipientKey = { emailId: string; position: number };

export type RecipientClaim = RecipientKey & {
  projectId: string;
  claim: number;
  provider: string;
  /** True when it may have been delivered. */
  inDoubt?: boolean;
  /** True puts it on hold until an operator releases it, or until it expires after `delayMs`. */
  onHold?: boolean;
};

/** Leased rows of the queue table. Without a delay a released row keeps its age. */
export const RECIPIENTS = createLeasedTable<RecipientKey, RecipientClaim>({
  name: 'queue',
  rowNoun: 'recipients',
  key: { email_id: 'uuid', position: 'smallint' },
  claimColumns: { provider: 'text' },
  releaseColumns: { in_doubt: 'boolean', on_hold: 'boolean' },
  setClause: `provider = input.provider, in_doubt = queue.in_doubt or coalesce(input.in_doubt, false),
       held = queue.held or coalesce(input.on_hold, false),
       due_at = case when input.delay_ms > 0 then app_now() + input.delay_ms * interval '1 millisecond'
                     else ${DUE_BY_AGE} end`,
  beforeRelease: () => failpoint('give_back_before_commit'),
  // An accept stores the first claim of the recipients that it hands over.
  mayBeInFlight: ({ claim }) => claim <= 1,
  unknownClaimDefaults: { inDoubt: true },
});

const RELEASE_EMAILS = `
update queue set holder = null, due_at = app_now()
 where project_id = any($1::uuid[]) and email_id = any($2::uuid[]) and holder = $3::uuid and claim = 1`;

export type QueuedEmail = { projectId: string; id: string };

/** Releases emails whose accept had no response, unless they were claimed since. */
export async function releaseEmails(
  db: Queryable,
  emails: readonly QueuedEmail[],
  leaseId: string,
): Promise<void> {
  const projectIds = emails.map(({ projectId }) => projectId);
  await db.query(RELEASE_EMAILS, [projectIds, emails.map(({ id }) => id), leaseId]);
}

const STOPPED_NOW = `
select exists (select from suppressions suppression
                where suppression.project_id = $1 and suppression.environment = $2
                  and suppression.address_key = $3
                  and ${holdsBack('app_now()')}) as "isSuppressed",
       exists (select from domains
                where domains.project_id = $1 and domains.id = $4
                  and domains.deleted_at is not null) as "isDomainDeleted"`;

export async function readStopReasons(
  db: Queryable,
  recipient: Scope & { address: string; domainId: string },
): Promise<{ isSuppressed: boolean; isDomainDeleted: boolean }> {
  const { projectId, environment, address, domainId } = recipient;
  const values = [projectId, environment, addressKey(address), domainId];
  const [row] = await db.query<{ isSuppressed: boolean; isDomainDeleted: boolean }>(
    { name: 'stopped_now', text: STOPPED_NOW },
    values,
  );
  return row!;
}
