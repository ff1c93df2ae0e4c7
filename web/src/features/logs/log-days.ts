/** Days of the logs, in the zone of the member, as `2026-11-21`. */

/** @param ago 0 for today, 1 for yesterday */
export function dayOf(ago: number, nowMs: number = Date.now()): string {
  const day = new Date(nowMs);
  day.setDate(day.getDate() - ago);
  const [month, date] = [day.getMonth() + 1, day.getDate()].map((n) => String(n).padStart(2, '0'));
  return `${day.getFullYear()}-${month}-${date}`;
}

type Days = { from?: string | undefined; to?: string | undefined };

/** Returns the days as times of a query. `to` includes its day. */
export function timesOf({ from, to }: Days): Days {
  const end = to === undefined ? undefined : new Date(`${to}T00:00`);
  end?.setDate(end.getDate() + 1);
  return {
    from: from === undefined ? undefined : new Date(`${from}T00:00`).toISOString(),
    to: end?.toISOString(),
  };
}
