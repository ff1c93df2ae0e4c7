/**
 * The results of accepting an email or a batch: the response when it is stored, the first response when the request is
 * a repetition, or a refusal (accept-refusals.ts).
 */
import type { LimitState } from '../core/limits.ts';
import type { Refusal } from '../core/refusals.ts';
import type { Caller, Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { refusalFor, type SendingRefusal } from './accept-refusals.ts';
import { findEarlierRequest } from './store/facts.ts';
import type { EmailResult, NewEmail } from './store/new-email.ts';

export type AcceptResult =
  /** `body` is the exact JSON text of the response. `limit` is null when its state is unknown. */
  | { kind: 'accepted' | 'repeated'; body: string; limit: LimitState | null }
  | (SendingRefusal & { kind: 'refused' });

export function acceptResultOf(row: EmailResult, email: NewEmail): AcceptResult {
  const { limit, outcome, response } = row;
  if (outcome === 'accepted') return { kind: 'accepted', body: response ?? '', limit };
  if (outcome === 'repeated') return resultOfRepetition(row, email.idempotency);
  return { kind: 'refused', ...refusalFor(outcome, email, limit) };
}

/** Returns the result of the earlier request with this key, or null when there was none within 24 hours. */
export async function findRepetition(
  db: Queryable,
  caller: Scope,
  idempotency: NonNullable<NewEmail['idempotency']>,
): Promise<AcceptResult | null> {
  const earlier = await findEarlierRequest(db, caller, idempotency.key);
  return earlier && resultOfRepetition({ ...earlier, limit: null }, idempotency);
}

/** Returns the first response, or a conflict if the key was used with another request. */
export function resultOfRepetition(
  earlier: Pick<EmailResult, 'fingerprint' | 'response' | 'limit'>,
  idempotency: NewEmail['idempotency'],
): AcceptResult {
  const { fingerprint, response, limit } = earlier;
  if (fingerprint === idempotency?.fingerprint) {
    return { kind: 'repeated', body: response ?? '', limit };
  }
  return {
    kind: 'refused',
    refused: 'idempotency_conflict',
    message: 'This Idempotency-Key was used within 24 hours with another body; use a new key.',
    ...(limit && { limit }),
  };
}

/** Refuses because the storage is full. A repeated request still gets its first response. */
export async function refuseForStorage(
  storageRefusal: Refusal,
  request: { caller: Caller; idempotency: NewEmail['idempotency']; db: Queryable },
): Promise<AcceptResult> {
  const { caller, idempotency, db } = request;
  const repetition = idempotency && (await findRepetition(db, caller, idempotency));
  return repetition ?? { kind: 'refused', ...storageRefusal };
}
