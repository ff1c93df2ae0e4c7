/** Builds the report of the API and the command line: rows of periods, and the sums of each value over all periods. */
import { type Refusal, isRefusal, refuseFields } from '../core/refusals.ts';
import type { DomainScope } from '../core/scope.ts';
import {
  addCounts,
  type Counts,
  LATENCY_BOUNDS_S,
  NO_COUNTS,
  NOT_BY_PROVIDER,
  percentileAtMostS,
  type StatsDimension,
  type StatsGranularity,
  statsRange,
  type StatsTimes,
} from './counts.ts';
import { isId } from '../database/ids.ts';
import type { Queryable } from '../database/database.ts';
import { findNames, readStats, STATS_ROWS_MAX } from './stats-store.ts';

export type StatsRequest = StatsTimes & { by?: StatsDimension | null | undefined };

type WireCounts = Omit<Counts, keyof typeof NOT_BY_PROVIDER | 'latencies'> &
  Record<keyof typeof NOT_BY_PROVIDER, number | null> & {
    time_to_delivery: {
      count: number;
      p50_at_most_s: number | null;
      p95_at_most_s: number | null;
      p99_at_most_s: number | null;
    };
  };

type ValueName = { value: string | null; name: string | null };

export type StatsReport = {
  object: 'stats';
  from: string;
  to: string;
  granularity: StatsGranularity;
  zone: string | null;
  by: StatsDimension | null;
  totals: (ValueName & WireCounts & { histogram: { at_most_s: number | null; count: number }[] })[];
  data: ({ period: string } & ValueName & WireCounts)[];
};

/** @param reach a reach with a domain sees only the mail of that sending domain */
export async function reportStats(
  db: Queryable,
  reach: DomainScope,
  { by = null, ...request }: StatsRequest,
  nowMs: number,
): Promise<StatsReport | Refusal> {
  const { domain = null } = reach;
  if (domain !== null && by !== null && by !== 'domain') return refuseDimension(domain, by);
  const range = statsRange(request, nowMs);
  if (isRefusal(range)) return range;
  const rows = await readStats(db, reach, { ...range, by, domain });
  if (rows === null) return TOO_MANY_ROWS;
  const names = await namesOf(db, reach, { by, rows });
  const valueName = (value: string): ValueName => ({
    value: by === null ? null : value,
    name: names.get(value) ?? null,
  });
  const totals = [...Map.groupBy(rows, ({ value }) => value)]
    .map(([value, periods]) => ({ value, counts: periods.reduce<Counts>(addCounts, NO_COUNTS) }))
    .toSorted((a, b) => weightOf(b.counts) - weightOf(a.counts));
  return {
    object: 'stats',
    from: range.from.toISOString(),
    to: range.to.toISOString(),
    granularity: range.granularity,
    zone: request.zone ?? null,
    by,
    totals: totals.map(({ value, counts }) => ({
      ...valueName(value),
      ...countsToWire(counts, by),
      histogram: counts.latencies.map((count, index) => ({
        at_most_s: LATENCY_BOUNDS_S[index] ?? null,
        count,
      })),
    })),
    data: rows.map(({ period, value, ...counts }) => ({
      period: period.toISOString(),
      ...valueName(value),
      ...countsToWire(counts, by),
    })),
  };
}

/** Returns the names of values that are ids. */
function namesOf(
  db: Queryable,
  scope: DomainScope,
  { by, rows }: { by: StatsDimension | null; rows: readonly { value: string }[] },
): Promise<Map<string, string>> | Map<string, string> {
  if (by !== 'key' && by !== 'template') return new Map();
  const ids = [...new Set(rows.map(({ value }) => value).filter(isId))];
  return findNames(db, scope, { dimension: by, ids });
}

function refuseDimension(domain: string, by: StatsDimension): Refusal {
  const message = `This key is limited to ${domain}, whose mail is not counted by ${by}; leave out by, or use a key without a domain.`;
  return { refused: 'authorization_error', message };
}

const TOO_MANY_ROWS = refuseFields([
  {
    field: 'from',
    message: `the report would have more than ${STATS_ROWS_MAX} rows; choose a later time, or use granularity=day`,
  },
]);

/** Orders values by size. Providers and reasons have no accepted recipients, so their attempts count. */
function weightOf({ recipients, sent, delivered, deferred, bounced, failed }: Counts): number {
  return Math.max(recipients, sent + delivered + deferred + bounced + failed);
}

function countsToWire({ latencies, ...counts }: Counts, by: StatsDimension | null): WireCounts {
  return {
    ...counts,
    ...((by === 'provider' || by === 'reason') && NOT_BY_PROVIDER),
    time_to_delivery: {
      count: latencies.reduce((sum, count) => sum + count, 0),
      p50_at_most_s: percentileAtMostS(latencies, 50),
      p95_at_most_s: percentileAtMostS(latencies, 95),
      p99_at_most_s: percentileAtMostS(latencies, 99),
    },
  };
}
