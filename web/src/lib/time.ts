/** Times and periods in words. */

const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** "12 s", "3 min", "2 h", "5 d": the largest unit that fits. */
export function inWords(seconds: number): string {
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${Math.round(whole * 1000)} ms`;
  if (whole < MINUTE_S) return `${whole < 10 ? Math.round(whole * 10) / 10 : Math.round(whole)} s`;
  if (whole < HOUR_S) return `${Math.round(whole / MINUTE_S)} min`;
  if (whole < DAY_S) return `${Math.round(whole / HOUR_S)} h`;
  return `${Math.round(whole / DAY_S)} d`;
}

export function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const dayAndTime = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: 'numeric',
  minute: '2-digit',
});

export function absoluteTime(at: string): string {
  return absolute.format(Date.parse(at));
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** "09:14:05", in the zone of the member. */
export function timeOfDay(at: string): string {
  return clock.format(Date.parse(at));
}

export function isSameDay(one: string, other: string): boolean {
  return new Date(one).toDateString() === new Date(other).toDateString();
}

/** "21 Nov, 09:14", in the zone of the member. */
export function dayTime(at: string): string {
  return dayAndTime.format(Date.parse(at));
}

/** Seconds. Clocks differ, and what is this near is happening now. */
const NOW_S = 5;

/** "in 3 min", "12 s ago"; more than a day away, the day and the time. @param seconds after `at` */
export function relativeTime(seconds: number, at: string): string {
  if (Math.abs(seconds) >= DAY_S) return dayAndTime.format(Date.parse(at));
  if (seconds < -NOW_S) return `in ${inWords(Math.ceil(-seconds))}`;
  return seconds < NOW_S ? 'now' : `${inWords(Math.floor(seconds))} ago`;
}
