/** The periods that the overview can show, each in as many parts as its chart has points. */
const HOUR_MS = 3_600_000;

export const RANGES = {
  '24h': { label: '24 hours', granularity: 'hour', periodMs: HOUR_MS, periods: 24 },
  '7d': { label: '7 days', granularity: 'hour', periodMs: HOUR_MS, periods: 168 },
  '30d': { label: '30 days', granularity: 'day', periodMs: 24 * HOUR_MS, periods: 30 },
} as const;
export type Range = (typeof RANGES)[keyof typeof RANGES];
