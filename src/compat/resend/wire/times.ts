/**
 * Reads times of Resend's clients: a period (`in 1 hour`), or a day with a time (`tomorrow at 9am`, `Friday at 3pm
 * ET`). A text that is not understood as a whole is refused: mail must not leave at a guessed time.
 *
 * Times without a zone are in UTC. A named zone follows its summer time. When the change of clocks skips a time, it
 * is read an hour later; when a time occurs twice, the first counts.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../lib/units.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};

const PHRASE_MAX = 80;

const WEEKDAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];

const PERIOD =
  /^(\d{1,6}|an?) ?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)$/i;

const DAY = `(?:(?:on |this |next )?(?:${WEEKDAYS.map((day) => `${day.slice(0, 3)}(?:${day.slice(3)})?`).join('|')})|today|tomorrow|\\d{4}-\\d\\d-\\d\\d)`;
const TIME = '(?:\\d{1,2}(?::\\d\\d)?(?: ?[ap]\\.?m\\.?)?|noon|midnight)';
const ZONE = '(?:\\(?[a-z]+(?:/[a-z_+-]+)*\\)?|(?:utc|gmt)?[+-]\\d{1,2}(?::?\\d\\d)?)';
/** Matches "tomorrow at 9am", "friday 15:00 et" and "9am tomorrow". */
const DAY_FIRST = new RegExp(`^(${DAY})(?:,? at|,)? (${TIME})(?: (${ZONE}))?$`);
const TIME_FIRST = new RegExp(`^(?:at )?(${TIME})(?: (?!on |this |next )(${ZONE}))? (${DAY})$`);

const MIDNIGHT = new Temporal.PlainTime(0);

/** Abbreviations of Resend's examples. Names like "est" have a fixed offset; names like "et" follow summer time. */
const ZONES: Readonly<Record<string, string>> = {
  '': 'UTC',
  z: 'UTC',
  utc: 'UTC',
  gmt: 'UTC',
  et: 'America/New_York',
  est: '-05:00',
  edt: '-04:00',
  ct: 'America/Chicago',
  cst: '-06:00',
  cdt: '-05:00',
  mt: 'America/Denver',
  mst: '-07:00',
  mdt: '-06:00',
  pt: 'America/Los_Angeles',
  pst: '-08:00',
  pdt: '-07:00',
  bst: '+01:00',
  cet: '+01:00',
  cest: '+02:00',
};

/** Reads "5 min", "24h" or "an hour". Returns null for other text. */
export function readPeriodMs(text: string): number | null {
  const [, count = '', unit = ''] = PERIOD.exec(text.trim()) ?? [];
  if (unit === '') return null;
  const times = /^an?$/i.test(count) ? 1 : Number(count);
  return times * UNIT_MS[unit[0]!.toLowerCase()]!;
}

export function readPhraseMs(text: string, nowMs: number): number | null {
  const phrase = text.trim().toLowerCase().replaceAll(/\s+/g, ' ');
  if (phrase.length > PHRASE_MAX) return null;
  if (phrase.startsWith('in ')) return afterPeriodsMs(phrase.slice(3), nowMs);
  return onDayMs(phrase, nowMs);
}

/** Reads "1 hour", "1 hour 30 minutes" or "1 day and 2 hours". */
function afterPeriodsMs(text: string, nowMs: number): number | null {
  const periods = text.split(/(?:,? and |, | )(?=\d|an? )/).map(readPeriodMs);
  // A period of 0 is valid: "1 hour 0 minutes".
  const plus = (sum: number | null, periodMs: number | null) =>
    sum === null || periodMs === null ? null : sum + periodMs;
  return periods.reduce(plus, nowMs);
}

function onDayMs(phrase: string, nowMs: number): number | null {
  if (phrase === 'tomorrow') return nowMs + UNIT_MS['d']!;
  const [, day, time, zone = ''] = DAY_FIRST.exec(phrase) ?? dayFirst(TIME_FIRST.exec(phrase));
  const zoneId = parseZone(zone);
  const clock = parseTime(time ?? '');
  if (day === undefined || zoneId === null || clock === null) return null;
  // Ambiguous: people mean the coming midnight, not the one that began the day.
  if (day === 'today' && clock.equals(MIDNIGHT)) return null;
  const now = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(zoneId);
  const date = parseDay(day, now.toPlainDate());
  if (date === null) return null;
  const timeMs = date.toZonedDateTime({ timeZone: zoneId, plainTime: clock }).epochMilliseconds;
  if (timeMs > nowMs || !isWeekday(day)) return timeMs;
  // A weekday is today only while its time is ahead, and otherwise the next one.
  const nextWeek = date.add({ days: 7 }).toZonedDateTime({ timeZone: zoneId, plainTime: clock });
  return nextWeek.epochMilliseconds;
}

/** Returns the groups of TIME_FIRST in the order of DAY_FIRST. */
function dayFirst(match: RegExpExecArray | null): readonly (string | undefined)[] {
  return match === null ? [] : [match[0], match[3], match[1], match[2]];
}

function isWeekday(day: string): boolean {
  return !/^(?:today|tomorrow|\d)/.test(day);
}

function parseDay(day: string, today: Temporal.PlainDate): Temporal.PlainDate | null {
  if (day === 'today') return today;
  if (day === 'tomorrow') return today.add({ days: 1 });
  if (!isWeekday(day)) return parseDate(day);
  const [, modifier = '', name = ''] = /^(?:(on|this|next) )?(...)/.exec(day) ?? [];
  const dayOfWeek = 1 + WEEKDAYS.findIndex((weekday) => weekday.startsWith(name));
  const days = (dayOfWeek - today.dayOfWeek + 7) % 7;
  // "next friday" on a Friday is in a week.
  return today.add({ days: days === 0 && modifier === 'next' ? 7 : days });
}

function parseDate(day: string): Temporal.PlainDate | null {
  const [year, month, date] = day.split('-').map(Number) as [number, number, number];
  try {
    return Temporal.PlainDate.from({ year, month, day: date }, { overflow: 'reject' });
  } catch {
    return null;
  }
}

/** Reads "9am", "9:30 pm", "15:00" or "noon". A bare "9" is ambiguous. */
function parseTime(text: string): Temporal.PlainTime | null {
  if (text === 'noon') return new Temporal.PlainTime(12);
  if (text === 'midnight') return MIDNIGHT;
  const [, hours = '', minutes = '', meridiem = ''] =
    /^(\d{1,2})(?::(\d\d))?(?: ?([ap])\.?m\.?)?$/.exec(text) ?? [];
  const [hour, minute] = [Number(hours), Number(minutes)];
  if (hours === '' || minute > 59) return null;
  if (meridiem === '')
    return minutes === '' || hour > 23 ? null : new Temporal.PlainTime(hour, minute);
  if (hour < 1 || hour > 12) return null;
  return new Temporal.PlainTime((hour % 12) + (meridiem === 'p' ? 12 : 0), minute);
}

function parseZone(text: string): string | null {
  const name = text.replaceAll(/[()]/g, '');
  if (Object.hasOwn(ZONES, name)) return ZONES[name]!;
  const [, sign = '', hours = '', minutes = '00'] =
    /^(?:utc|gmt)?([+-])(\d{1,2})(?::?(\d\d))?$/.exec(name) ?? [];
  const id = sign === '' ? name : `${sign}${hours.padStart(2, '0')}:${minutes}`;
  if (sign === '' && !name.includes('/')) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: id }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}
