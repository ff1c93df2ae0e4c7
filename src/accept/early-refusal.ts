/**
 * Refuses an email by what is known before its content is made: the key's domain, whether the domain is verified,
 * and whether the limit of sending is used up. The accept statement decides all of it again; asked first, it saves
 * the work of rendering a template for an email that is refused anyway.
 */
import { type Limit, limitRefusal, type LimitState } from '../core/limits.ts';
import type { Refusal } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { isVerifiedDomain } from '../domains/domain-store.ts';
import { peekLimit } from '../accounts/limits/limit-store.ts';
import type { Queryable } from '../database/database.ts';
import { otherDomain, refusalOf } from './accept.ts';

export type EarlyRefusal = Refusal & { limit?: LimitState };

/** @param domain of the sender */
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
