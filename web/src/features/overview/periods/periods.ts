/**
 * The periods that the overview shows, and the periods with which it compares them. Days are those of the viewer. The
 * service keeps hours for 31 days and days of UTC for 400 days, so an older period has days of UTC.
 */
import { STATS_KEPT_DAYS } from '../../../../../src/core/retention.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const PERIOD_NAMES = {
  '24h': 'Last 24 hours',
  today: 'Today',
  yesterday: 'Yesterday',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
} as const;
type PeriodName = keyof typeof PERIOD_NAMES;

/** The length of a part, which is a bar of the chart. */
type PartLength = 'hour' | 'six-hours' | 'day' | 'utc-day';

export type Part = { startMs: number; endMs: number };

export type Period = {
  /** Its name in the address: one of PERIOD_NAMES, or the first and last day like `2026-11-20..2026-11-22`. */
  key: string;
  label: string;
  length: PartLength;
  days: number;
  /** In order. The last one may end in the future. */
  parts: readonly Part[];
};

/** Longer periods have longer parts, so that a chart has 24 to 31 bars in most cases. */
const HOURS_MAX_DAYS = 2;
const SIX_HOURS_MAX_DAYS = 8;
const DAYS_MAX = 366;

/** @param key as in the address; an unknown one is the last 24 hours */
export function periodOf(key: string | undefined, nowMs: number): Period {
  const today = startOfDay(nowMs);
  switch (key) {
    case 'today':
      return daysFrom('today', PERIOD_NAMES.today, { firstMs: today, days: 1, nowMs });
    case 'yesterday': {
      const firstMs = addDays(today, -1);
      return daysFrom('yesterday', PERIOD_NAMES.yesterday, { firstMs, days: 1, nowMs });
    }
    case '7d':
      return daysFrom('7d', PERIOD_NAMES['7d'], { firstMs: addDays(today, -6), days: 7, nowMs });
    case '30d':
      return daysFrom('30d', PERIOD_NAMES['30d'], {
        firstMs: addDays(today, -29),
        days: 30,
        nowMs,
      });
    default:
      return (key === undefined ? null : datesOf(key, nowMs)) ?? last24Hours(nowMs);
  }
}

export function isPeriodName(key: string): key is PeriodName {
  return key in PERIOD_NAMES;
}

function last24Hours(nowMs: number): Period {
  const endMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS + HOUR_MS;
  const parts = Array.from({ length: 24 }, (_, index) => {
    const startMs = endMs - (24 - index) * HOUR_MS;
    return { startMs, endMs: startMs + HOUR_MS };
  });
  return { key: '24h', label: PERIOD_NAMES['24h'], length: 'hour', days: 1, parts };
}

const DATES = /^(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)$/;

/** Returns the period of two dates, or null when they are none, in the wrong order, in the future or too far apart. */
function datesOf(key: string, nowMs: number): Period | null {
  const [, first = '', last = ''] = DATES.exec(key) ?? [];
  const [firstMs, lastMs] = [dateToMs(first), dateToMs(last)];
  if (firstMs === null || lastMs === null || firstMs > nowMs) return null;
  const days = daysBetween(firstMs, lastMs) + 1;
  if (days < 1 || days > DAYS_MAX) return null;
  const label = days === 1 ? dateText(firstMs) : `${dateText(firstMs)} – ${dateText(lastMs)}`;
  return daysFrom(key, label, { firstMs, days, nowMs });
}

function daysFrom(
  key: string,
  label: string,
  { firstMs, days, nowMs }: { firstMs: number; days: number; nowMs: number },
): Period {
  const length = lengthFor({ firstMs, days, nowMs });
  const parts = partsFrom({ firstMs, days, length });
  return { key, label, length, days, parts };
}

function lengthFor(period: { firstMs: number; days: number; nowMs: number }): PartLength {
  if (!hasHours(period.firstMs, period.nowMs)) return 'utc-day';
  if (period.days <= HOURS_MAX_DAYS) return 'hour';
  return period.days <= SIX_HOURS_MAX_DAYS ? 'six-hours' : 'day';
}

/** Whether the service still has the hours from a time on. The last day before their end may be incomplete. */
function hasHours(fromMs: number, nowMs: number): boolean {
  return fromMs > nowMs - STATS_KEPT_DAYS.hour * DAY_MS;
}

function partsFrom(period: { firstMs: number; days: number; length: PartLength }): Part[] {
  const { firstMs, days, length } = period;
  const endMs = addDays(firstMs, days);
  if (length === 'utc-day') {
    return Array.from({ length: days }, (_, index) => {
      const startMs = utcMidnightOf(addDays(firstMs, index));
      return { startMs, endMs: startMs + DAY_MS };
    });
  }
  if (length === 'hour') {
    const hours = Math.round((endMs - firstMs) / HOUR_MS);
    return Array.from({ length: hours }, (_, index) => {
      const startMs = firstMs + index * HOUR_MS;
      return { startMs, endMs: startMs + HOUR_MS };
    });
  }
  const perDay = length === 'day' ? 1 : 4;
  const starts = Array.from({ length: days * perDay + 1 }, (_, index) =>
    addHours(addDays(firstMs, Math.floor(index / perDay)), ((index % perDay) * 24) / perDay),
  );
  return starts.slice(0, -1).map((startMs, index) => ({ startMs, endMs: starts[index + 1]! }));
}

/** With what a period is compared: `before`, `week`, `none`, or the first day of a period of the same length. */
export type Comparison = 'before' | 'week' | 'none' | (string & {});

/** @returns choices of comparisons for a period, with their names */
export function comparisonsOf({ days }: Period): [key: Comparison, label: string][] {
  return [
    ['before', days === 1 ? 'Day before' : `${days} days before`],
    ...(days === 7 ? [] : ([['week', 'A week earlier']] as [Comparison, string][])),
    ['none', 'Nothing'],
  ];
}

/** The period of the same length with which a period is compared, with the same number of parts where DST allows. */
export function comparedWith(
  period: Period,
  comparison: Comparison | undefined,
  nowMs: number,
): Period | null {
  const shift = shiftDays(period, comparison);
  if (shift === null || shift === 0) return null;
  const { key, days } = period;
  const label = labelOfComparison(period, comparison);
  const firstMs = addDays(period.parts[0]!.startMs, shift);
  if (period.length === 'utc-day' || !hasHours(firstMs, nowMs)) {
    // Hours are gone, so only whole days can be compared.
    if (period.length === 'hour' || period.length === 'six-hours') return null;
    return {
      key,
      label,
      days,
      length: 'utc-day',
      parts: partsFrom({ firstMs, days, length: 'utc-day' }),
    };
  }
  const parts = period.parts.map(({ startMs, endMs }) => ({
    startMs: addDays(startMs, shift),
    endMs: addDays(endMs, shift),
  }));
  return { key, label, days, length: period.length, parts };
}

export function labelOfComparison(period: Period, comparison: Comparison = 'before'): string {
  const named = comparisonsOf(period).find(([key]) => key === comparison)?.[1];
  if (named !== undefined) return named;
  const firstMs = dateToMs(comparison);
  if (firstMs === null) return comparisonsOf(period)[0]![1];
  const lastMs = addDays(firstMs, period.days - 1);
  return period.days === 1 ? dateText(firstMs) : `${dateText(firstMs)} – ${dateText(lastMs)}`;
}

/** Days between the period and the one that it is compared with; null: it is not compared. */
function shiftDays(period: Period, comparison: Comparison = 'before'): number | null {
  if (comparison === 'none') return null;
  if (comparison === 'week') return -7;
  const firstMs = dateToMs(comparison);
  return firstMs === null ? -period.days : daysBetween(period.parts[0]!.startMs, firstMs);
}

/** The times of a request for the counts of a period. Days of the viewer's zone are sums of hours. */
export function statsTimes({ length, parts }: Period): {
  granularity: 'hour' | 'day';
  zone?: string;
  from: string;
  to: string;
} {
  const from = new Date(parts[0]!.startMs).toISOString();
  const to = new Date(parts.at(-1)!.endMs).toISOString();
  if (length === 'hour' || length === 'six-hours') return { granularity: 'hour', from, to };
  if (length === 'utc-day') return { granularity: 'day', from, to };
  return { granularity: 'day', zone: viewerZone(), from, to };
}

export function viewerZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The index of the part that a count belongs to, or -1. */
export function partIndexAt(parts: readonly Part[], atMs: number): number {
  return parts.findIndex(({ startMs, endMs }) => atMs >= startMs && atMs < endMs);
}

/** "2026-11-22", of the viewer. */
export function isoDate(ms: number): string {
  const date = new Date(ms);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function dateToMs(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return null;
  const ms = new Date(`${text}T00:00:00`).getTime();
  return Number.isNaN(ms) || isoDate(ms) !== text ? null : ms;
}

const dayAndMonth = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

function dateText(ms: number): string {
  return dayAndMonth.format(ms);
}

function startOfDay(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/** The same time of day, also over a change of the clocks. */
function addDays(ms: number, days: number): number {
  const date = new Date(ms);
  return date.setDate(date.getDate() + days);
}

function addHours(ms: number, hours: number): number {
  const date = new Date(ms);
  return date.setHours(date.getHours() + hours);
}

function daysBetween(fromMs: number, toMs: number): number {
  return Math.round((startOfDay(toMs) - startOfDay(fromMs)) / DAY_MS);
}

function utcMidnightOf(ms: number): number {
  const date = new Date(ms);
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}
