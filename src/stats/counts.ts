/**
 * Counts of mail by hour and by day: counters, dimensions, and classes of the time to delivery. stats-store.ts stores
 * them. All times are in UTC.
 */
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { HOUR_MS } from '../lib/units.ts';

export const STATS_GRANULARITIES = ['hour', 'day'] as const;
export type StatsGranularity = (typeof STATS_GRANULARITIES)[number];

export const STATS_DIMENSIONS = ['domain', 'provider', 'tag', 'key', 'template', 'reason'] as const;
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

/** Counters without a provider or a reason: their changes happen before a mail server is looked up. */
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

/** Limit on the distinct values of a dimension per project, environment and day. Further values count as `*`. */
export const STATS_VALUES_MAX = {
  domain: 500,
  provider: 200,
  tag: 200,
  key: 200,
  template: 200,
  reason: 50,
} as const;
/**
 * Limit on the values of one tag name; further ones count as `name:*`. A tag with a new value in each email leaves
 * room for other tags.
 */
export const TAG_VALUES_MAX = 50;

const PERIOD_MS: Readonly<Record<StatsGranularity, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS };
const PERIODS_MAX: Readonly<Record<StatsGranularity, number>> = { hour: 31 * 24, day: 400 };
const DEFAULT_PERIODS: Readonly<Record<StatsGranularity, number>> = { hour: 24, day: 30 };

/** `dayStarts`: the hours at which days of a time zone begin; absent or null: days of UTC. */
export type StatsRange = {
  granularity: StatsGranularity;
  from: Date;
  to: Date;
  dayStarts?: readonly Date[] | null;
};

export type StatsTimes = {
  granularity: StatsGranularity;
  from?: Date | undefined;
  to?: Date | undefined;
  /** An IANA time zone, for days that begin there at midnight. Such days are sums of hours, so they go back 31 days. */
  zone?: string | null | undefined;
};

/**
 * Returns whole periods, from the beginning of the first to the end of the last. The defaults: `to` is the end of the
 * current period, and `from` is 24 hours or 30 days before. With a zone, `from` and `to` are whole hours.
 */
export function statsRange(times: StatsTimes, nowMs: number): StatsRange | Refusal {
  const { from, to, granularity, zone = null } = times;
  const stored = zone === null ? granularity : 'hour';
  const periodMs = PERIOD_MS[stored];
  const endMs = Math.ceil((to?.getTime() ?? nowMs + 1) / periodMs) * periodMs;
  const beginMs =
    from === undefined
      ? endMs - DEFAULT_PERIODS[granularity] * PERIOD_MS[granularity]
      : Math.floor(from.getTime() / periodMs) * periodMs;
  const periods = (endMs - beginMs) / periodMs;
  const problem = rangeProblem(stored, periods, zone);
  if (problem !== null) return refuseFields([problem]);
  const range = { granularity, from: new Date(beginMs), to: new Date(endMs) };
  if (zone === null || granularity === 'hour') return range;
  const dayStarts = dayStartsOf(range, zone);
  if (from !== undefined || dayStarts.length === 1) return { ...range, dayStarts };
  // Without a beginning, the first day is whole, too.
  return { ...range, from: dayStarts[1]!, dayStarts: dayStarts.slice(1) };
}

/**
 * The hours of a range at which a day begins in a time zone, with its first hour. Where a zone is not whole hours from
 * UTC, a day begins with the first whole hour of UTC after its midnight.
 */
function dayStartsOf({ from, to }: { from: Date; to: Date }, zone: string): Date[] {
  const dateIn = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
  const starts: Date[] = [];
  let date = '';
  for (let ms = from.getTime(); ms < to.getTime(); ms += HOUR_MS) {
    const next = dateIn.format(ms);
    if (next !== date) starts.push(new Date(ms));
    date = next;
  }
  return starts;
}

/** Returns the first hour of a date in a time zone, or null when the zone skips the date. */
export function startOfDate(date: string, zone: string): Date | null {
  const noonMs = Date.parse(`${date}T12:00:00Z`);
  // Zones are up to 14 hours from UTC.
  const around = { from: new Date(noonMs - 27 * HOUR_MS), to: new Date(noonMs + 15 * HOUR_MS) };
  const dateIn = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
  return dayStartsOf(around, zone).find((start) => dateIn.format(start) === date) ?? null;
}

export function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) instanceof Intl.DateTimeFormat;
  } catch {
    return false;
  }
}

function rangeProblem(
  granularity: StatsGranularity,
  periods: number,
  zone: string | null,
): FieldProblem | null {
  if (periods <= 0) return { field: 'from', message: 'must be before to' };
  const max = PERIODS_MAX[granularity];
  if (periods <= max) return null;
  const coarser = zone === null ? ', or use granularity=day' : ', or leave out zone';
  const hint = granularity === 'hour' ? coarser : '';
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
