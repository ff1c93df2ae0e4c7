/**
 * Counts of mail by hour and by day: counters, dimensions, and classes of the time to delivery. stats-store.ts stores
 * them. All times are in UTC.
 */
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { HOUR_MS } from '../lib/units.ts';

export const STATS_GRANULARITIES = ['hour', 'day'] as const;
export type StatsGranularity = (typeof STATS_GRANULARITIES)[number];

export const STATS_DIMENSIONS = ['domain', 'provider', 'tag', 'key'] as const;
export type StatsDimension = (typeof STATS_DIMENSIONS)[number];

/** Counters of recipients by outcome. `opened` and `clicked` count a recipient's first time, by a person. */
export const RECIPIENT_COUNTERS = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'failed',
  'suppressed',
  'canceled',
  'complained',
  'opened',
  'clicked',
] as const;

/** `emails` and `recipients` count accepted mail. */
export const COUNTERS = ['emails', 'recipients', ...RECIPIENT_COUNTERS] as const;
export type Counter = (typeof COUNTERS)[number];

/** Counters without a provider: their changes happen before a mail server is looked up. */
export const NOT_BY_PROVIDER = { emails: null, recipients: null, suppressed: null, canceled: null };

/**
 * Upper bounds of the latency classes, in seconds; one more class has longer times. The last bound is the longest
 * lifetime of an email. The classes are stored, so other bounds need a new column.
 */
export const LATENCY_BOUNDS_S = [
  1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 432_000,
] as const;
export const LATENCY_CLASSES = LATENCY_BOUNDS_S.length + 1;

export type Counts = Record<Counter, number> & {
  latencies: readonly number[];
};

/** Retention of counts: hours for a month, days for more than a year. */
export const STATS_KEPT_DAYS: Readonly<Record<StatsGranularity, number>> = { hour: 31, day: 400 };

/** Limit on the distinct values of a dimension per project, environment and day. Further values count as `*`. */
export const STATS_VALUES_MAX = { domain: 500, provider: 200, tag: 200, key: 200 } as const;
/**
 * Limit on the values of one tag name; further ones count as `name:*`. A tag with a new value in each email leaves
 * room for other tags.
 */
export const TAG_VALUES_MAX = 50;

const PERIOD_MS: Readonly<Record<StatsGranularity, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS };
const PERIODS_MAX: Readonly<Record<StatsGranularity, number>> = { hour: 31 * 24, day: 400 };
const DEFAULT_PERIODS: Readonly<Record<StatsGranularity, number>> = { hour: 24, day: 30 };

export type StatsRange = { granularity: StatsGranularity; from: Date; to: Date };

/**
 * Returns whole periods, from the beginning of the first to the end of the last. The defaults: `to` is the end of the
 * current period, and `from` is 24 hours or 30 days before.
 */
export function statsRange(
  {
    granularity,
    from,
    to,
  }: { granularity: StatsGranularity; from?: Date | undefined; to?: Date | undefined },
  nowMs: number,
): StatsRange | Refusal {
  const periodMs = PERIOD_MS[granularity];
  const endMs = Math.ceil((to?.getTime() ?? nowMs + 1) / periodMs) * periodMs;
  const beginMs =
    from === undefined
      ? endMs - DEFAULT_PERIODS[granularity] * periodMs
      : Math.floor(from.getTime() / periodMs) * periodMs;
  const periods = (endMs - beginMs) / periodMs;
  const problem = rangeProblem(granularity, periods);
  if (problem !== null) return refuseFields([problem]);
  return { granularity, from: new Date(beginMs), to: new Date(endMs) };
}

function rangeProblem(granularity: StatsGranularity, periods: number): FieldProblem | null {
  if (periods <= 0) return { field: 'from', message: 'must be before to' };
  const max = PERIODS_MAX[granularity];
  if (periods <= max) return null;
  const hint = granularity === 'hour' ? ', or use granularity=day' : '';
  const message = `is ${periods} ${granularity}s before to, but a report has at most ${max}; choose a later time${hint}`;
  return { field: 'from', message };
}

export const NO_COUNTS: Counts = {
  emails: 0,
  recipients: 0,
  sent: 0,
  delivered: 0,
  deferred: 0,
  bounced: 0,
  failed: 0,
  suppressed: 0,
  canceled: 0,
  complained: 0,
  opened: 0,
  clicked: 0,
  latencies: Array.from({ length: LATENCY_CLASSES }, () => 0),
};

export function addCounts(a: Counts, b: Counts): Counts {
  const sums = COUNTERS.map((name) => [name, a[name] + b[name]] as const);
  const latencies = a.latencies.map((count, index) => count + (b.latencies[index] ?? 0));
  return { ...(Object.fromEntries(sums) as Record<Counter, number>), latencies };
}

/**
 * Returns the smallest bound that at least this share of deliveries did not exceed. The exact percentile lies between
 * it and the bound below. Null: there were no deliveries, or it exceeds the last bound.
 */
export function percentileAtMostS(latencies: readonly number[], percent: number): number | null {
  const total = latencies.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let counted = 0;
  const index = latencies.findIndex((count) => (counted += count) * 100 >= total * percent);
  return LATENCY_BOUNDS_S[index] ?? null;
}
