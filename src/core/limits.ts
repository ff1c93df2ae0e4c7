/**
 * Rate limits: fixed windows that start at their first request, counted in the database so that
 * they are exact over all workers and nodes. Per project and environment, except `auth`:
 *
 *     category      counts                          counted by
 *     sending       emails, and their recipients    the accept statements (accept/store/insert.ts), of a
 *                                                   large limit in blocks (accept/store/limit-blocks.ts)
 *     dry_runs      dry runs; as many as emails     emails/routes.ts (countToLimit)
 *     verification  verifications of a domain       domains/routes.ts (the same)
 *     domains       domains that are added          the same
 *     webhooks      tests and replays               webhooks/routes.ts (the same)
 *     auth          requests and log-ins without    http/access.ts, accounts/sessions/http-sessions.ts and
 *                   a valid key or session, per     accept/smtp-submission.ts (accounts/keys/auth-limiter.ts);
 *                   client (not: ended sessions);
 *                   sign-ins that failed, per       accounts/sign-in/limits.ts
 *                   client, account and network,
 *                   or browser
 *
 * Requests of tracked links are never refused; what is stored of them is limited in tracking/visits.ts.
 *
 * The refusals are `limitRefusal` and, for a batch of emails, `batchLimitRefusal`; an email that is left out of a
 * permissive batch has its sentence in `refusalOf` (accept/accept.ts). HTTP answers 429 with headers
 * (http/errors.ts, `refuse`); SMTP replies 451, and 421 to a log-in (`tooMany` in accept/smtp-submission.ts).
 */
import type { Refusal } from './refusals.ts';

export type Limit = { max: number; windowS: number };

export type LimitState = {
  limit: number;
  remaining: number;
  resetS: number;
  windowS: number;
  /** Absent: requests, which most limits count. */
  counts?: 'recipients';
};

export const LIMIT_CATEGORIES = ['sending', 'verification', 'domains', 'webhooks', 'auth'] as const;
export type LimitCategory = (typeof LIMIT_CATEGORIES)[number];
/** Dry runs have no size of their own: it is that of sending. */
export type CountedCategory = LimitCategory | 'dry_runs';

export const DEFAULT_LIMITS: Readonly<Record<LimitCategory, Limit>> = {
  sending: { max: 100, windowS: 60 },
  verification: { max: 10, windowS: 60 },
  domains: { max: 60, windowS: 60 },
  webhooks: { max: 60, windowS: 60 },
  auth: { max: 20, windowS: 60 },
};

/**
 * The refusal when a limit is exceeded.
 * @param recipients of the email, for `sending`
 */
export function limitRefusal(
  category: CountedCategory,
  limit: LimitState,
  recipients = 1,
): Refusal & { limit: LimitState } {
  const message = limitMessage(category, limit, recipients);
  return { refused: 'rate_limit_error', message, limit };
}

/** The same for people who sign in: an exceeded limit refuses the right password as well. */
export function signInLimitRefusal(limit: LimitState): Refusal & { limit: LimitState } {
  const message = `Too many sign-ins have failed; try again in ${limit.resetS} s.`;
  return { refused: 'rate_limit_error', message, limit };
}

/** The same for a batch of emails that is accepted as a whole or not at all. */
export function batchLimitRefusal(
  state: LimitState,
  batch: { emails: number; recipients: number },
): Refusal & { limit: LimitState } {
  const { counts = 'emails', limit, remaining, resetS, windowS } = state;
  const needed = batch[counts];
  const message =
    needed > limit
      ? `This batch has ${needed} ${counts}, more than the limit of ${limit} ${counts} per ${windowS} s; send fewer at once.`
      : `Of the limit of ${limit} ${counts} per ${windowS} s ${remaining} are left, and this batch has ${needed}; try again in ${resetS} s.`;
  return { refused: 'rate_limit_error', message, limit: state };
}

function limitMessage(category: CountedCategory, state: LimitState, recipients: number): string {
  const { counts, limit, remaining, resetS, windowS } = state;
  if (category === 'auth') {
    return `Too many requests without a valid API key came from your address; try again in ${resetS} s.`;
  }
  if (counts !== 'recipients') {
    return `The limit of ${limit} ${COUNTED[category]} per ${windowS} s is used up; try again in ${resetS} s.`;
  }
  if (recipients > limit) {
    return `This email has ${recipients} recipients, more than the limit of ${limit} recipients per ${windowS} s; send it to fewer at once.`;
  }
  return `Of the limit of ${limit} recipients per ${windowS} s ${remaining} are left, and this email has ${recipients}; try again in ${resetS} s.`;
}

const COUNTED = {
  sending: 'emails',
  dry_runs: 'dry runs',
  verification: 'verifications',
  domains: 'domains',
  webhooks: 'tests and replays',
} as const;

/** Reads `100/60` (requests per seconds); null when it is not of that form or out of range. */
export function parseLimit(text: string): Limit | null {
  const match = /^(\d{1,9})\/(\d{1,5})$/.exec(text.trim());
  if (!match) return null;
  const limit = { max: Number(match[1]), windowS: Number(match[2]) };
  return limit.max > 0 && limit.windowS > 0 && limit.windowS <= 86_400 ? limit : null;
}
