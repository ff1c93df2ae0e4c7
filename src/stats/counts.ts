/**
 * Counts of mail by hour and by day: what is counted, by which dimensions, and what is said of the time to
 * delivery. stats/stats-store.ts keeps them. All times are in UTC.
 */
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';

export const STATS_GRANULARITIES = ['hour', 'day'] as const;
export type StatsGranularity = (typeof STATS_GRANULARITIES)[number];

export const STATS_DIMENSIONS = ['domain', 'provider', 'tag', 'key'] as const;
export type StatsDimension = (typeof STATS_DIMENSIONS)[number];

/** Recipients, by what was reached; `opened` and `clicked`: for the first time, by a person. */
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

/** `emails` and `recipients` are those accepted. */
export const COUNTERS = ['emails', 'recipients', ...RECIPIENT_COUNTERS] as const;
export type Counter = (typeof COUNTERS)[number];

/** What happens before a mail server is looked for cannot be counted by provider. */
export const NOT_BY_PROVIDER = { emails: null, recipients: null, suppressed: null, canceled: null };

/**
 * Upper bounds of the latency classes, in seconds; a further class has what took longer. The last is the
 * longest lifetime of an email. The classes are stored: a change of the bounds needs a new column.
 */
export const LATENCY_BOUNDS_S = [
  1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 432_000,
] as const;
export const LATENCY_CLASSES = LATENCY_BOUNDS_S.length + 1;

export type Counts = Record<Counter, number> & {
  latencies: readonly number[];
};

/** How long counts are kept: an hour by hour for a month, a day for somewhat more than a year. */
export const STATS_KEPT_DAYS: Readonly<Record<StatsGranularity, number>> = { hour: 31, day: 400 };

/** Values of a dimension that are kept apart in a project, an environment and a day; the others are `*`. */
export const STATS_VALUES_MAX = { domain: 500, provider: 200, tag: 200, key: 200 } as const;
/** Of one tag name; the others are `name:*`. A tag with a new value in each email leaves room for others. */
export const TAG_VALUES_MAX = 50;

const HOUR_MS = 3_600_000;
const LENGTH_MS: Readonly<Record<StatsGranularity, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS };
const PERIODS_MAX: Readonly<Record<StatsGranularity, number>> = { hour: 31 * 24, day: 400 };
const PERIODS_BY_DEFAULT: Readonly<Record<StatsGranularity, number>> = { hour: 24, day: 30 };

export type StatsRange = { granularity: StatsGranularity; from: Date; to: Date };

/**
 * Whole periods: from the beginning of the first to the end of the last. Without `to` it ends with the present
 * period; without `from` it has 24 hours or 30 days.
 */
export function statsRange(
  {
    granularity,
    from,
    to,
  }: { granularity: StatsGranularity; from?: Date | undefined; to?: Date | undefined },
  nowMs: number,
): StatsRange | Refusal {
  const lengthMs = LENGTH_MS[granularity];
  const endMs = Math.ceil((to?.getTime() ?? nowMs + 1) / lengthMs) * lengthMs;
  const beginMs =
    from === undefined
      ? endMs - PERIODS_BY_DEFAULT[granularity] * lengthMs
      : Math.floor(from.getTime() / lengthMs) * lengthMs;
  const periods = (endMs - beginMs) / lengthMs;
  const problem = rangeProblem(granularity, periods);
  if (problem !== null) return refuseFields([problem]);
  return { granularity, from: new Date(beginMs), to: new Date(endMs) };
}

function rangeProblem(granularity: StatsGranularity, periods: number): FieldProblem | null {
  if (periods <= 0) return { field: 'from', message: 'must be before to' };
  const max = PERIODS_MAX[granularity];
  if (periods <= max) return null;
  const hint = granularity === 'hour' ? ', or use granularity=day' : '';
  const message = `is ${periods} ${granularity}s before to, but an answer has at most ${max}; choose a later time${hint}`;
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

export function addCounts(one: Counts, other: Counts): Counts {
  const sums = COUNTERS.map((name) => [name, one[name] + other[name]] as const);
  const latencies = one.latencies.map((count, at) => count + (other.latencies[at] ?? 0));
  return { ...(Object.fromEntries(sums) as Record<Counter, number>), latencies };
}

/**
 * The bound that at least this share of deliveries did not exceed: the exact percentile lies between it and the
 * bound below. Null: there are none, or it exceeds the last bound.
 */
export function percentileAtMostS(latencies: readonly number[], percent: number): number | null {
  const all = latencies.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let counted = 0;
  const at = latencies.findIndex((count) => (counted += count) * 100 >= all * percent);
  return LATENCY_BOUNDS_S[at] ?? null;
}
