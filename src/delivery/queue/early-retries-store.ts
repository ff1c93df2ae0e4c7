/** Makes delayed mail due earlier, because the reason for its wait has ended (delivery/queue/early-retries.ts). */
import type { Queryable } from '../../database/database.ts';
import { IS_FREE, type RecipientClaim } from './queue-store.ts';

export type DelayedClaim = Pick<RecipientClaim, 'projectId' | 'emailId' | 'position' | 'claim'>;

// Project and email are repeated as arrays, so that any join plan starts from them.
const BRING_FORWARD = `
update queue
   set due_at = app_now() + input.delay_ms * interval '1 millisecond'
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::int[], $5::int[])
       as input(project_id, email_id, position, claim, delay_ms)
 where queue.project_id = input.project_id and queue.email_id = input.email_id
   and queue.position = input.position
   and queue.claim = input.claim and ${IS_FREE} and not queue.held
   and queue.due_at > app_now() + input.delay_ms * interval '1 millisecond'
   and queue.project_id = any($1::uuid[]) and queue.email_id = any($2::uuid[])
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
