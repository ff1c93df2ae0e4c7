/**
 * Accepts the emails of one request (`POST /v1/emails/batch`) by the rules of accept.ts, in one commit
 * (store/accept-store.ts), then hands over each.
 *
 * Strict: stores all emails or none. The refusal names each error with its index in the request.
 * Permissive: stores the valid emails and lists the others in `errors`, with their index. Emails beyond the limits
 * are refused: those with few recipients are accepted first, then those earlier in the request.
 */
import { batchLimitRefusal } from '../core/limits.ts';
import { type FieldProblem, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { domainOf } from '../mail/address.ts';
import type { AcceptRow, EmailBatch, NewEmail, DecisionOutcome } from './store/new-email.ts';
import {
  type AcceptOptions,
  type AcceptOutcome,
  answerAgain,
  newEmail,
  otherDomain,
  refusalOf,
  refuseFull,
  storeWithin,
  afterCommit,
} from './accept.ts';
import type { EmailDraft } from './draft.ts';
import type { EarlyRefusal } from './early-refusal.ts';

export const BATCH_MAX = 100;

export const BATCH_VALIDATIONS = ['strict', 'permissive'] as const;
export type BatchValidation = (typeof BATCH_VALIDATIONS)[number];

/** @param items the emails in the request's order, each a draft or the reason for its refusal */
export type AcceptBatch = (
  caller: Caller,
  items: readonly (EmailDraft | EarlyRefusal)[],
  options: {
    validation: BatchValidation;
    idempotency: EmailBatch['idempotency'];
  },
) => Promise<AcceptOutcome>;

type Item = { index: number; draft: EmailDraft; email: NewEmail };
type Refused = { index: number; refusal: EarlyRefusal };

export function createAcceptBatch(options: AcceptOptions): AcceptBatch {
  return async (caller, drafts, { validation, idempotency }): Promise<AcceptOutcome> => {
    const { items, refused } = sorted(caller, drafts, options);
    if (validation === 'strict' && refused.length > 0) return refuseAll(refused);
    if (items.length === 0) {
      return { kind: 'accepted', body: bodyOf([], { outcomes: [], refused }), limit: null };
    }
    const emails = items.map(({ email }) => email);
    const full = await options.storage.takeAll(emails);
    if (full !== null) return refuseFull(full, { caller, idempotency, db: options.db });
    const batch: EmailBatch = {
      projectId: caller.projectId,
      environment: caller.environment,
      keyId: caller.keyId,
      idempotency,
      sizeBytes: emails.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      emails,
      isStrict: validation === 'strict',
      respond: (outcomes) => bodyOf(items, { outcomes, refused }),
    };
    const rows = await storeWithin(emails, options, () => options.store.acceptBatch(batch));
    for (const [at, { email, draft }] of items.entries()) {
      afterCommit(email, draft, { row: rows[at]!, options });
    }
    return answer(rows, items, { validation, idempotency });
  };
}

function sorted(
  caller: Caller,
  drafts: Parameters<AcceptBatch>[1],
  options: AcceptOptions,
): { items: Item[]; refused: Refused[] } {
  const items: Item[] = [];
  const refused: Refused[] = [];
  let ahead = 0;
  for (const [index, draft] of drafts.entries()) {
    const refusal = isRefusal(draft) ? draft : refuseOtherDomain(caller, draft);
    if (refusal !== null) {
      refused.push({ index, refusal });
    } else if (!isRefusal(draft)) {
      const email = newEmail(caller, draft, { idempotency: null, options, ahead });
      items.push({ index, draft, email: { ...email, response: '' } });
      ahead += email.recipients.length;
    }
  }
  return { items, refused };
}

function refuseOtherDomain({ domain }: Caller, { email }: EmailDraft): Refusal | null {
  if (domain === null || domain === domainOf(email.from.address)) return null;
  return { refused: 'authorization_error', message: otherDomain(domain) };
}

/** Returns the response: `data` has the stored emails, `errors` the others, in the request's order. */
function bodyOf(
  items: readonly Item[],
  { outcomes, refused }: { outcomes: readonly DecisionOutcome[]; refused: readonly Refused[] },
): string {
  const data: { id: string }[] = [];
  const errors = [...refused];
  for (const [at, { index, email }] of items.entries()) {
    const outcome = outcomes[at]!;
    if (outcome === 'accepted' || outcome === 'replayed') data.push({ id: email.id });
    else errors.push({ index, refusal: refusalOf(outcome, domainOf(email.from.address)) });
  }
  errors.sort((one, other) => one.index - other.index);
  return JSON.stringify({
    data,
    errors: errors.map(({ index, refusal: { refused: code, message } }) => ({
      index,
      code,
      message,
    })),
  });
}

function answer(
  rows: readonly AcceptRow[],
  items: readonly Item[],
  { validation, idempotency }: Parameters<AcceptBatch>[2],
): AcceptOutcome {
  const [first] = rows;
  if (!first) throw new Error('a batch has at least one email');
  const { limit, response } = first;
  if (rows.some(({ outcome }) => outcome === 'accepted')) {
    return { kind: 'accepted', body: response ?? '', limit };
  }
  if (first.outcome === 'replayed') return answerAgain(first, idempotency);
  const isKeyRefused = rows.every(({ outcome }) => outcome === 'key_refused');
  if (validation === 'permissive' && !isKeyRefused) {
    return { kind: 'accepted', body: response ?? '', limit };
  }
  return refuseStored(rows, items);
}

/** Checks in the order in which a single email meets them. A strict refusal reports the first that fails. */
const CHECKS = [
  'key_refused',
  'schedule_refused',
  'domain_refused',
  'suppressed',
  'limited',
  'unknown',
] as const;

function refuseStored(rows: readonly AcceptRow[], items: readonly Item[]): AcceptOutcome {
  const check = CHECKS.find((one) => rows.some(({ outcome }) => outcome === one)) ?? 'unknown';
  const row = rows.find(({ outcome }) => outcome === check)!;
  const { limit } = row;
  const refusals = items.flatMap(({ index, email }, at) =>
    rows[at]!.outcome === check
      ? [{ index, refusal: refusalOf(check, domainOf(email.from.address)) }]
      : [],
  );
  if (check === 'limited' && limit !== null) {
    const recipients = items.reduce((sum, { email }) => sum + email.recipients.length, 0);
    const needed = { emails: items.length, recipients };
    return { kind: 'refused', ...batchLimitRefusal(limit, needed) };
  }
  if (check === 'unknown' || check === 'key_refused') {
    return {
      kind: 'refused',
      ...refusals[0]!.refusal,
      ...(check === 'key_refused' && limit !== null && { limit }),
    };
  }
  return { ...refuseAll(refusals), ...(limit !== null && { limit }) };
}

/** Refuses with the code and sentence of the first problem. `details` lists all of them. */
function refuseAll(refused: readonly Refused[]): EarlyRefusal & { kind: 'refused' } {
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
function problemsOf({ index, refusal }: Refused): FieldProblem[] {
  const { message, details = [{ field: '', message }] } = refusal;
  return details.map((problem) => ({
    field: problem.field === '' ? `[${index}]` : `[${index}].${problem.field}`,
    message: problem.message,
  }));
}
