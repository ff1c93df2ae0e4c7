/**
 * Refuses an email before its template is rendered: by the key's domain, an unverified domain, or a used-up sending
 * limit. The accept statement checks all three again. This early check saves rendering for emails that are refused
 * anyway.
 */
import { type Limit, limitRefusal, type LimitState } from '../core/limits.ts';
import type { Refusal } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { isVerifiedDomain } from '../domains/domain-store.ts';
import { peekLimit } from '../accounts/limits/limit-store.ts';
import type { Queryable } from '../database/database.ts';
import { otherDomain, refusalOf } from './accept.ts';

export type EarlyRefusal = Refusal & { limit?: LimitState };

export async function refuseEarly(
  db: Queryable,
  caller: Caller,
  { domain, limit: byDefault }: { domain: string; limit: Limit },
): Promise<EarlyRefusal | null> {
  if (caller.domain !== null && caller.domain !== domain) {
    return { refused: 'authorization_error', message: otherDomain(caller.domain) };
  }
  const [isVerified, limit] = await Promise.all([
    isVerifiedDomain(db, { ...caller, name: domain }),
    peekLimit(db, { ...caller, category: 'sending' }, byDefault),
  ]);
  if (!isVerified) return refusalOf('domain_refused', domain);
  return limit.remaining === 0 ? limitRefusal('sending', limit) : null;
}
