/**
 * Accepts the emails of one request (`POST /v1/emails/batch`) by the rules of accept.ts, in one commit
 * (store/accept-store.ts), then hands over each.
 *
 * Strict: stores all emails or none. The refusal names each error with its index in the request.
 * Permissive: stores the valid emails and lists the others in `errors`, with their index. Emails beyond the limits
 * are refused: those with few recipients are accepted first, then those earlier in the request.
 */
import { batchLimitRefusal } from '../core/limits.ts';
import { type FieldProblem, isRefusal, refuseFields } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { domainOf } from '../mail/address.ts';
import type { EmailResults, DecisionKind, EmailBatch, NewEmail } from './store/new-email.ts';
import { refusalFor, refuseOtherDomain, type SendingRefusal } from './accept-refusals.ts';
import { type AcceptOptions, finishAccept, storeReserved } from './accept.ts';
import { type AcceptResult, refuseForStorage, resultOfRepetition } from './accept-results.ts';
import { newEmail } from './email-of-draft.ts';
import { isKeyRefused } from './store/decision.ts';
import type { EmailDraft } from './draft.ts';

export const BATCH_MAX = 100;

export const BATCH_VALIDATIONS = ['strict', 'permissive'] as const;
export type BatchValidation = (typeof BATCH_VALIDATIONS)[number];

/** @param items the emails in the request's order, each a draft or the reason for its refusal */
export type AcceptBatch = (
  caller: Caller,
  items: readonly (EmailDraft | SendingRefusal)[],
  options: {
    validation: BatchValidation;
    idempotency: EmailBatch['idempotency'];
  },
) => Promise<AcceptResult>;

type Item = { index: number; draft: EmailDraft; email: NewEmail };
type RefusedItem = { index: number; refusal: SendingRefusal };

export function createAcceptBatch(options: AcceptOptions): AcceptBatch {
  return async (caller, drafts, { validation, idempotency }): Promise<AcceptResult> => {
    const { items, refused } = sortOut(caller, drafts, options);
    if (validation === 'strict' && refused.length > 0) return refuseAll(refused);
    if (items.length === 0) {
      return { kind: 'accepted', body: responseOf([], { outcomes: [], refused }), limit: null };
    }
    const emails = items.map(({ email }) => email);
    const storageRefusal = await options.storage.takeAll(emails);
    if (storageRefusal !== null)
      return refuseForStorage(storageRefusal, { caller, idempotency, db: options.db });
    const batch: EmailBatch = {
      projectId: caller.projectId,
      environment: caller.environment,
      keyId: caller.keyId,
      idempotency,
      sizeBytes: emails.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      emails,
      isStrict: validation === 'strict',
      respond: (outcomes) => responseOf(items, { outcomes, refused }),
    };
    const rows = await storeReserved(emails, options, () => options.store.acceptBatch(batch));
    for (const [at, { email, draft }] of items.entries()) {
      finishAccept(email, draft, { row: rows[at]!, options });
    }
    return batchResultOf(rows, items, { validation, idempotency });
  };
}

function sortOut(
  caller: Caller,
  drafts: Parameters<AcceptBatch>[1],
  options: AcceptOptions,
): { items: Item[]; refused: RefusedItem[] } {
  const items: Item[] = [];
  const refused: RefusedItem[] = [];
  let recipientsAhead = 0;
  for (const [index, draft] of drafts.entries()) {
    const refusal = isRefusal(draft)
      ? draft
      : refuseOtherDomain(caller, domainOf(draft.email.from.address));
    if (refusal !== null) {
      refused.push({ index, refusal });
    } else if (!isRefusal(draft)) {
      const email = newEmail(caller, draft, { idempotency: null, options, recipientsAhead });
      items.push({ index, draft, email: { ...email, response: '' } });
      recipientsAhead += email.recipients.length;
    }
  }
  return { items, refused };
}

/** Returns the response: `data` has the stored emails, `errors` the others, in the request's order. */
function responseOf(
  items: readonly Item[],
  { outcomes, refused }: { outcomes: readonly DecisionKind[]; refused: readonly RefusedItem[] },
): string {
  const data: { id: string }[] = [];
  const errors = [...refused];
  for (const [at, { index, email }] of items.entries()) {
    const outcome = outcomes[at]!;
    if (outcome === 'accepted' || outcome === 'repeated') data.push({ id: email.id });
    else errors.push({ index, refusal: refusalFor(outcome, email, null) });
  }
  errors.sort((a, b) => a.index - b.index);
  return JSON.stringify({
    data,
    errors: errors.map(({ index, refusal: { refused: code, message } }) => ({
      index,
      code,
      message,
    })),
  });
}

function batchResultOf(
  rows: EmailResults,
  items: readonly Item[],
  { validation, idempotency }: Parameters<AcceptBatch>[2],
): AcceptResult {
  const [first] = rows;
  if (!first) throw new Error('a batch has at least one email');
  const { limit, response } = first;
  if (rows.some(({ outcome }) => outcome === 'accepted')) {
    return { kind: 'accepted', body: response ?? '', limit };
  }
  if (first.outcome === 'repeated') return resultOfRepetition(first, idempotency);
  const isRefusedByKey = rows.every(({ outcome }) => isKeyRefused(outcome));
  if (validation === 'permissive' && !isRefusedByKey) {
    return { kind: 'accepted', body: response ?? '', limit };
  }
  return refuseStored(rows, items);
}

/** Checks in the order in which a single email meets them. A strict refusal reports the first that fails. */
const CHECKS = [
  'key_refused',
  'network_refused',
  'schedule_refused',
  'sender_refused',
  'recipient_refused',
  'domain_refused',
  'suppressed',
  'limited',
  'unknown',
] as const;

function refuseStored(rows: EmailResults, items: readonly Item[]): AcceptResult {
  const check = CHECKS.find((name) => rows.some(({ outcome }) => outcome === name)) ?? 'unknown';
  const { limit } = rows.find(({ outcome }) => outcome === check)!;
  if (check === 'limited' && limit !== null) {
    const recipients = items.reduce((sum, { email }) => sum + email.recipients.length, 0);
    const batch = { emails: items.length, recipients };
    return { kind: 'refused', ...batchLimitRefusal(limit, batch) };
  }
  const refused = items
    .filter((_, index) => rows[index]!.outcome === check)
    .map(({ index, email }) => ({ index, refusal: refusalFor(check, email, limit) }));
  // These concern the request as a whole, not one of its emails.
  if (check === 'unknown' || isKeyRefused(check)) {
    return { kind: 'refused', ...refused[0]!.refusal };
  }
  return refuseAll(refused);
}

/** Refuses with the code and sentence of the first problem. `details` lists all of them. */
function refuseAll(refused: readonly RefusedItem[]): SendingRefusal & { kind: 'refused' } {
  const [first] = refused;
  if (!first) throw new Error('a refusal needs a problem');
  return {
    kind: 'refused',
    ...refuseFields(refused.flatMap(problemsOf)),
    refused: first.refusal.refused,
    ...(first.refusal.limit && { limit: first.refusal.limit }),
  };
}

/** Prefixes fields with the email's index: `[3].to[0]` is the first recipient of the fourth email. */
function problemsOf({ index, refusal }: RefusedItem): FieldProblem[] {
  const { message, details = [{ field: '', message }] } = refusal;
  return details.map((problem) => ({
    field: problem.field === '' ? `[${index}]` : `[${index}].${problem.field}`,
    message: problem.message,
  }));
}
