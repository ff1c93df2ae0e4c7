/**
 * Refuses an email before its template is rendered: by the key's domain, an unverified domain, or a used-up sending
 * limit. The accept statement checks all three again. This early check saves rendering for emails that are refused
 * anyway.
 */
import { type Limit, limitRefusal } from '../core/limits.ts';
import type { Caller } from '../core/scope.ts';
import { isVerifiedDomain } from '../domains/domain-store.ts';
import { peekLimit } from '../accounts/limits/limit-store.ts';
import type { Queryable } from '../database/database.ts';
import {
  refuseOtherDomain,
  type SendingRefusal,
  unverifiedDomainRefusal,
} from './accept-refusals.ts';

export async function refuseEarly(
  db: Queryable,
  caller: Caller,
  sending: { domain: string; defaultLimit: Limit },
): Promise<SendingRefusal | null> {
  const { domain, defaultLimit } = sending;
  const refusal = refuseOtherDomain(caller, domain);
  if (refusal !== null) return refusal;
  const [isVerified, limit] = await Promise.all([
    isVerifiedDomain(db, { ...caller, name: domain }),
    peekLimit(db, { ...caller, category: 'sending' }, defaultLimit),
  ]);
  if (!isVerified) return unverifiedDomainRefusal(domain);
  return limit.remaining === 0 ? limitRefusal('sending', limit) : null;
}
