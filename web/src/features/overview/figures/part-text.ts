/** Times of the parts of a period, as the chart and the table show them. */
import type { Part, Period } from '../periods/periods.ts';

const time = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const DAY = { day: 'numeric', month: 'short' } as const;
const day = new Intl.DateTimeFormat(undefined, DAY);
const utcDay = new Intl.DateTimeFormat(undefined, { ...DAY, timeZone: 'UTC' });

/** "24 Nov, 08:00 – 09:00", or the day. */
export function partText({ startMs, endMs }: Part, { length }: Pick<Period, 'length'>): string {
  if (length === 'utc-day') return utcDay.format(startMs);
  if (length === 'day') return day.format(startMs);
  return `${day.format(startMs)}, ${time.format(startMs)} – ${time.format(endMs)}`;
}

/** Below the axis: the time, or the day where a day begins. */
export function tickText(
  { startMs }: Part,
  { length, days }: Pick<Period, 'length' | 'days'>,
): string {
  if (length === 'utc-day') return utcDay.format(startMs);
  const isMidnight = new Date(startMs).getHours() === 0;
  return length === 'day' || days > 2 || isMidnight ? day.format(startMs) : time.format(startMs);
}
