/** Makes delayed mail due earlier, because the reason for its wait has ended (delivery/queue/early-retries.ts). */
import type { Queryable } from '../../database/database.ts';
import { IS_FREE, type RecipientClaim } from './queue-store.ts';

export type DelayedClaim = Pick<RecipientClaim, 'projectId' | 'emailId' | 'position' | 'claim'>;

// Project and email are repeated as arrays, so that any join plan starts from them.
const BRING_FORWARD = `
update queue q
   set due_at = app_now() + i.delay_ms * interval '1 millisecond'
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::int[], $5::int[])
       as i(project_id, email_id, position, claim, delay_ms)
 where q.project_id = i.project_id and q.email_id = i.email_id and q.position = i.position
   and q.claim = i.claim and ${IS_FREE} and not q.held
   and q.due_at > app_now() + i.delay_ms * interval '1 millisecond'
   and q.project_id = any($1::uuid[]) and q.email_id = any($2::uuid[])
returning 1`;

/**
 * Makes recipients due after `delayMs` at the latest. Does not change those that were claimed or put on hold since.
 * @returns the number of recipients that are due earlier now
 */
export async function bringForward(
  db: Queryable,
  claims: readonly (DelayedClaim & { delayMs: number })[],
): Promise<number> {
  const rows = await db.query({ name: 'bring_forward', text: BRING_FORWARD }, [
    claims.map((claim) => claim.projectId),
    claims.map((claim) => claim.emailId),
    claims.map((claim) => claim.position),
    claims.map((claim) => claim.claim),
    claims.map((claim) => claim.delayMs),
  ]);
  return rows.length;
}
