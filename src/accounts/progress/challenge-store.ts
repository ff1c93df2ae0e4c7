/** Random values of sign-ins in progress that were used. Each works once, on all nodes. */
import { hash } from 'node:crypto';
import type { Queryable } from '../../database/database.ts';
import { batchDelete } from '../../database/expiry.ts';

/** Longer than a sign-in may take (sealed-text.ts), so that an expired value cannot be used again. */
const KEPT = `interval '1 hour'`;

const USE = `
insert into used_challenges (sha256, expires_at) values ($1, app_now() + ${KEPT})
on conflict do nothing
returning 1`;

/** Returns false when the value was used already. */
export async function useChallenge(db: Queryable, challenge: string): Promise<boolean> {
  return (await db.query(USE, [hash('sha256', challenge, 'buffer')])).length > 0;
}

export const deleteExpiredChallenges = batchDelete('used_challenges', 'expires_at <= app_now()');
