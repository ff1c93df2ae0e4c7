/**
 * Rate limits: fixed windows that start with their first request. The database counts, so limits are exact over all
 * workers and nodes. They are per project and environment, except `auth`:
 *
 * - `sending`: emails and recipients. accept/store/fast-path-sql.ts decides and counts on the fast path. On the full
 *   path, accept/store/decision.ts decides and accept/store/insert.ts counts. accept/store/limits/limit-blocks.ts
 *   counts a large limit in blocks.
 * - `dry_runs`: dry runs, as many as emails. accept/routes.ts counts them (countTowardsLimit).
 * - `verification`: verifications of a domain. domains/routes.ts counts them (countTowardsLimit).
 * - `domains`: added domains. domains/routes.ts counts them (countTowardsLimit).
 * - `webhooks`: tests and replays. webhooks/routes.ts counts them (countTowardsLimit).
 * - `auth`: requests and log-ins without a valid key or session, per client; ended sessions do not count.
 *   http/access.ts, accounts/sessions/http-sessions.ts and accept/smtp-submission.ts count them
 *   (accounts/keys/auth-limiter.ts).
 *   accounts/sign-in/sign-in-limits.ts counts failed sign-ins per client, account and network, or browser.
 *
 * Tracked links are never refused; tracking/visits.ts limits the stored visits.
 *
 * Refusals: `limitRefusal`, and `batchLimitRefusal` for a whole batch. In a permissive batch, each refused email has
 * its own sentence (`refusalFor`, accept/accept-refusals.ts). HTTP responds with 429 and headers (`refuse`,
 * http/errors.ts). SMTP replies 451, and 421 to a log-in (`tooManyAttempts`, accept/smtp-submission.ts).
 */
import type { Refusal } from './refusals.ts';

export type Limit = { max: number; windowS: number };

export type LimitState = {
  limit: number;
  remaining: number;
  resetS: number;
  windowS: number;
  /** The counted unit; absent for requests. */
  counts?: 'recipients';
};

export const LIMIT_CATEGORIES = ['sending', 'verification', 'domains', 'webhooks', 'auth'] as const;
export type LimitCategory = (typeof LIMIT_CATEGORIES)[number];
/** Dry runs are counted separately. Their limit has the size of `sending`. */
export type CountedCategory = LimitCategory | 'dry_runs';

export const DEFAULT_LIMITS: Readonly<Record<LimitCategory, Limit>> = {
  sending: { max: 100, windowS: 60 },
  verification: { max: 10, windowS: 60 },
  domains: { max: 60, windowS: 60 },
  webhooks: { max: 60, windowS: 60 },
  auth: { max: 20, windowS: 60 },
};

const COUNTED_UNITS = {
  sending: 'emails',
  dry_runs: 'dry runs',
  verification: 'verifications',
  domains: 'domains',
  webhooks: 'tests and replays',
} as const;

/** Returns the refusal of an exceeded limit. `recipients`: the number of recipients of the email, for `sending`. */
export function limitRefusal(
  category: CountedCategory,
  limit: LimitState,
  recipients = 1,
): Refusal & { limit: LimitState } {
  const message = limitMessage(category, limit, recipients);
  return { refused: 'rate_limit_error', message, limit };
}

/** Returns the refusal of a sign-in. Over the limit, even the right password is refused. */
export function signInLimitRefusal(limit: LimitState): Refusal & { limit: LimitState } {
  const message = `Too many sign-ins have failed; try again in ${limit.resetS} s.`;
  return { refused: 'rate_limit_error', message, limit };
}

export function batchLimitRefusal(
  state: LimitState,
  batch: { emails: number; recipients: number },
): Refusal & { limit: LimitState } {
  const { counts = 'emails', limit, remaining, resetS, windowS } = state;
  const needed = batch[counts];
  const message =
    needed > limit
      ? `This batch has ${needed} ${counts}, more than the limit of ${limit} ${counts} per ${windowS} s; send fewer at once.`
      : `This batch has ${needed} ${counts}, but only ${remaining} of the limit of ${limit} ${counts} per ${windowS} s are left; try again in ${resetS} s.`;
  return { refused: 'rate_limit_error', message, limit: state };
}

/** The first limit that a new installation meets is the default of 100 emails a minute. */
const RAISE_IT = 'The operator can raise it: letterhaus projects set-limit.';

function limitMessage(category: CountedCategory, state: LimitState, recipients: number): string {
  const { counts, limit, remaining, resetS, windowS } = state;
  if (category === 'auth') {
    return `Too many requests without a valid API key came from your address; try again in ${resetS} s.`;
  }
  if (counts !== 'recipients') {
    const wait = `The limit of ${limit} ${COUNTED_UNITS[category]} per ${windowS} s is used up; try again in ${resetS} s.`;
    return category === 'sending' ? `${wait} ${RAISE_IT}` : wait;
  }
  if (recipients > limit) {
    return `This email has ${recipients} recipients, more than the limit of ${limit} recipients per ${windowS} s; send it to fewer at once.`;
  }
  return `This email has ${recipients} recipients, but only ${remaining} of the limit of ${limit} recipients per ${windowS} s are left; try again in ${resetS} s.`;
}

/** Parses `100/60` (100 requests in 60 s); null when the form or a number is invalid. */
export function parseLimit(text: string): Limit | null {
  const match = /^(\d{1,9})\/(\d{1,5})$/.exec(text.trim());
  if (!match) return null;
  const limit = { max: Number(match[1]), windowS: Number(match[2]) };
  return limit.max > 0 && limit.windowS > 0 && limit.windowS <= 86_400 ? limit : null;
}
