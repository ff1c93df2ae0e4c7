/** Days of the logs, in the zone of the member, as `2026-11-21`. */

/** @param ago 0 for today, 1 for yesterday */
export function dayOf(ago: number, nowMs: number = Date.now()): string {
  const day = new Date(nowMs);
  day.setDate(day.getDate() - ago);
  const [month, date] = [day.getMonth() + 1, day.getDate()].map((n) => String(n).padStart(2, '0'));
  return `${day.getFullYear()}-${month}-${date}`;
}

type Days = { from?: string | undefined; to?: string | undefined };

/**
 * Returns the days as times of a query. `to` includes its day. A text that is no day, like one with a year of five
 * digits, is left out.
 */
export function timesOf({ from, to }: Days): Days {
  return { from: midnight(from, 0), to: midnight(to, 1) };
}

function midnight(day: string | undefined, daysLater: number): string | undefined {
  if (day === undefined || !/^\d{4}-\d\d-\d\d$/.test(day)) return undefined;
  const at = new Date(`${day}T00:00`);
  at.setDate(at.getDate() + daysLater);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
