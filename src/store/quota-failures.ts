/**
 * Full mailboxes. One that is full for a day is no reason to stop mailing it; one to which five
 * emails failed for good within a week is abandoned: it is suppressed as a hard bounce, for two
 * weeks. An email that bounced with `quota`, or expired with it as its last answer, counts once.
 *
 * For who has just settled such a failure: deliver.ts, and what reads reports that come back late.
 */
import type { Scope } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import type { Database, Queryable } from './postgres/database.ts';
import { addSuppressionIn } from './suppressions.ts';

/** Emails to one address that have to fail within QUOTA_DAYS. */
export const QUOTA_FAILURES = 5;
export const QUOTA_DAYS = 7;
const SUPPRESSED_DAYS = 14;

// Two that count at once would each miss the other's.
const ONE_AT_A_TIME = `
select pg_advisory_xact_lock(hashtextextended($1::uuid::text || $2 || $3, 0))`;

const NOTE = `
insert into quota_failures (project_id, environment, address_key, email_id, failed_at)
values ($1, $2, $3, $4, app_now())
on conflict do nothing
returning app_now() + interval '${SUPPRESSED_DAYS} days' as until`;

const COUNT = `
select count(*)::int as failures from quota_failures
 where project_id = $1 and environment = $2 and address_key = $3
   and failed_at > app_now() - interval '${QUOTA_DAYS} days'`;

/**
 * Notes that an email failed for good because the mailbox was full; call it when that was settled.
 * Saying it again of the same email changes nothing.
 * @returns whether the address is suppressed because of it
 */
export function noteQuotaFailure(
  db: Database,
  failure: Scope & { emailId: string; address: string },
): Promise<boolean> {
  const { address, emailId } = failure;
  const scope = { projectId: failure.projectId, environment: failure.environment };
  const who = [scope.projectId, scope.environment, addressKey(address)];
  return db.transaction(async (tx) => {
    await tx.query(ONE_AT_A_TIME, who);
    const [noted] = await tx.query<{ until: Date }>(NOTE, [...who, emailId]);
    if (!noted) return false;
    const [count] = await tx.query<{ failures: number }>(COUNT, who);
    if (!count || count.failures < QUOTA_FAILURES) return false;
    const { isNew } = await addSuppressionIn(tx, scope, {
      address,
      reason: 'hard_bounce',
      sourceEmailId: emailId,
      expiresAt: noted.until,
      by: 'delivery',
    });
    return isNew;
  });
}

const FORGET = `
delete from quota_failures where ctid = any(array(
  select ctid from quota_failures
   where failed_at <= app_now() - interval '${QUOTA_DAYS} days' order by failed_at limit $1))`;

/** Forgets failures that count no more, a batch. */
export async function forgetQuotaFailures(db: Queryable, limit: number): Promise<void> {
  await db.query(FORGET, [limit]);
}
