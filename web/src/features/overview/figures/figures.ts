/** Figures of a period: counts by part, their sums, shares, and the change since the period before. */
import type { Stats } from '../../../../../sdk/src/api.ts';
import { type Part, partIndexAt } from '../periods/periods.ts';

/** `delivered` includes what a relay accepted, `bounced` what failed. `deferred` counts attempts. */
export type Counts = {
  emails: number;
  recipients: number;
  delivered: number;
  deferred: number;
  bounced: number;
  complained: number;
};

export type CountedPart = Part & Counts & { isUnfinished: boolean; slowestS: number | null };

const NONE: Counts = {
  emails: 0,
  recipients: 0,
  delivered: 0,
  deferred: 0,
  bounced: 0,
  complained: 0,
};

type Row = Stats['data'][number] | Stats['totals'][number];

export function countsOf(row: Row): Counts {
  const { emails, recipients, delivered, sent, deferred, bounced, failed, complained } = row;
  return {
    emails: emails ?? 0,
    recipients: recipients ?? 0,
    delivered: delivered + sent,
    deferred,
    bounced: bounced + failed,
    complained,
  };
}

export function add(a: Counts, b: Counts): Counts {
  const keys = Object.keys(NONE) as (keyof Counts)[];
  return Object.fromEntries(keys.map((key) => [key, a[key] + b[key]])) as Counts;
}

export function sum(all: readonly Counts[]): Counts {
  return all.reduce<Counts>(add, NONE);
}

/** The counts of each part of a period, also of those without mail. */
export function countParts(
  stats: Pick<Stats, 'data'> | undefined,
  parts: readonly Part[],
  nowMs: number,
): CountedPart[] {
  const counted = parts.map((part): CountedPart => ({
    ...part,
    ...NONE,
    isUnfinished: part.endMs > nowMs,
    slowestS: null,
  }));
  for (const row of stats?.data ?? []) {
    const part = counted[partIndexAt(parts, Date.parse(row.period))];
    if (part === undefined) continue;
    const { count, p95_at_most_s: slowestS } = row.time_to_delivery;
    const slower = Math.max(part.slowestS ?? 0, slowestS ?? 0);
    Object.assign(part, add(part, countsOf(row)), count > 0 && { slowestS: slower });
  }
  return counted;
}

/** Counts the recipients whose delivery ended. A bar is so high, and rates are shares of this number. */
export function endedOf({ delivered, bounced }: Counts): number {
  return delivered + bounced;
}

/** Attempts with an outcome. A deferred recipient has several. */
export function outcomesOf({ delivered, deferred, bounced }: Counts): number {
  return delivered + deferred + bounced;
}

/** A share from 0 to 1, or null without recipients that ended. */
export function shareOf(
  counts: Counts,
  name: 'delivered' | 'bounced' | 'complained',
): number | null {
  const ended = endedOf(counts);
  return ended === 0 ? null : Math.min(1, counts[name] / ended);
}

/** With fewer recipients in a part its share means little. */
export const PART_RECIPIENTS_MIN = 20;

/** The share in each part. Where some parts have enough recipients, those with too few have none. */
export function sharesOf(
  parts: readonly CountedPart[],
  name: 'delivered' | 'bounced' | 'complained',
): (number | null)[] {
  const hasEnough = (part: CountedPart): boolean => endedOf(part) >= PART_RECIPIENTS_MIN;
  const isAll = !parts.some(hasEnough);
  return parts.map((part) => (isAll || hasEnough(part) ? shareOf(part, name) : null));
}

/**
 * The sums of two periods as far as both are finished, so that the present hour does not look like a decline.
 * @returns null without a period to compare with
 */
export function comparedSums(
  parts: readonly CountedPart[],
  before: readonly CountedPart[] | null,
): { now: Counts; before: Counts } | null {
  if (before === null) return null;
  const finished = parts.filter(({ isUnfinished }) => !isUnfinished).length;
  return { now: sum(parts.slice(0, finished)), before: sum(before.slice(0, finished)) };
}

const whole = new Intl.NumberFormat();
const percents = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const small = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 2 });
const points = new Intl.NumberFormat(undefined, {
  maximumFractionDigits: 1,
  minimumFractionDigits: 1,
});

export function number(value: number): string {
  return whole.format(value);
}

/** "96.5 %"; with two digits below one percent. */
export function percent(share: number | null): string {
  if (share === null) return '–';
  return (share > 0 && share < 0.01 ? small : percents).format(share);
}

const oneDigit = new Intl.NumberFormat(undefined, {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});

/** A share in a column, always with one digit, so that those below each other align. */
export function percentInColumn(share: number | null): string {
  return share === null ? '–' : oneDigit.format(share);
}

/** The change of a share in percentage points: "+2.3 pts". Null: nothing to compare. */
export function pointsOf(now: number | null, before: number | null): string | null {
  if (now === null || before === null) return null;
  const change = (now - before) * 100;
  const size = points.format(Math.abs(change));
  return Number(Math.abs(change).toFixed(1)) === 0
    ? `±${size} pts`
    : `${signOf(change)}${size} pts`;
}

/** Beyond ten times as many, a percentage says less than the count before. */
const PERCENT_MAX = 10;

/** The change of a count in percent: "−12 %", or "was 29". Null: nothing to compare. */
export function changeOf(now: number, before: number): string | null {
  if (before === 0) return null;
  const change = now / before - 1;
  if (change >= PERCENT_MAX) return `was ${number(before)}`;
  const size = percents.format(Math.abs(change));
  return Math.abs(change) < 0.0005 ? `±${size}` : `${signOf(change)}${size}`;
}

function signOf(change: number): string {
  return change < 0 ? '−' : '+';
}

/** Marks of an axis from 0 on: at most four steps of 1, 2, 2.5 or 5 times a power of ten. */
export function marksUpTo(max: number): number[] {
  if (max <= 0) return [0, 1];
  const rough = max / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 2.5, 5, 10].find((one) => one * power >= rough) ?? 10;
  const step = factor * power;
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, index) => index * step);
}
