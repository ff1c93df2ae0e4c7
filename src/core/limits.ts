/**
 * Rate limits: fixed windows that start at their first request, counted in the database so that
 * they are exact over all workers and nodes (store/accept-statement.ts, store/limits.ts).
 */

export type Limit = { max: number; windowS: number };

/** Where a caller stands in its window, as shown in the RateLimit headers. */
export type LimitState = {
  limit: number;
  remaining: number;
  resetS: number;
  windowS: number;
  /** Absent: requests, which are what most limits count. */
  counts?: 'recipients';
};

export const LIMIT_CATEGORIES = ['sending', 'verification', 'domains', 'webhooks', 'auth'] as const;
export type LimitCategory = (typeof LIMIT_CATEGORIES)[number];

export const DEFAULT_LIMITS: Readonly<Record<LimitCategory, Limit>> = {
  sending: { max: 100, windowS: 60 },
  verification: { max: 10, windowS: 60 },
  domains: { max: 60, windowS: 60 },
  webhooks: { max: 60, windowS: 60 },
  auth: { max: 20, windowS: 60 },
};

/** Reads `100/60` (requests per seconds); null when it is not of that form or out of range. */
export function parseLimit(text: string): Limit | null {
  const match = /^(\d{1,9})\/(\d{1,5})$/.exec(text.trim());
  if (!match) return null;
  const limit = { max: Number(match[1]), windowS: Number(match[2]) };
  return limit.max > 0 && limit.windowS > 0 && limit.windowS <= 86_400 ? limit : null;
}
