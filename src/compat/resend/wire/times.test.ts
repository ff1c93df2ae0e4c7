/** Phrases for times, as Resend's API takes them. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readPhraseMs } from './times.ts';

const NOW = '2026-11-26T10:30:00.000Z';

const PHRASES: Readonly<Record<string, string | null>> = {
  'in 1 min': '2026-11-26T10:31:00.000Z',
  'in 1 hour': '2026-11-26T11:30:00.000Z',
  'In an hour': '2026-11-26T11:30:00.000Z',
  'in 30 days': '2026-12-26T10:30:00.000Z',
  'in 1 hour 30 minutes': '2026-11-26T12:00:00.000Z',
  'in 1 hour 0 minutes': '2026-11-26T11:30:00.000Z',
  'in 0 days 1 hour': '2026-11-26T11:30:00.000Z',
  'in 0 minutes': '2026-11-26T10:30:00.000Z',
  'in 1 day and 2 hours': '2026-11-27T12:30:00.000Z',
  'in 2 weeks, 1 day': '2026-12-11T10:30:00.000Z',
  tomorrow: '2026-11-27T10:30:00.000Z',
  'tomorrow at 9am': '2026-11-27T09:00:00.000Z',
  'Tomorrow at 9 AM': '2026-11-27T09:00:00.000Z',
  'tomorrow 09:00': '2026-11-27T09:00:00.000Z',
  '9am tomorrow': '2026-11-27T09:00:00.000Z',
  'at 12:15 a.m. on friday': '2026-11-27T00:15:00.000Z',
  'today at 3pm': '2026-11-26T15:00:00.000Z',
  'today at noon': '2026-11-26T12:00:00.000Z',
  // A past time sends at once, as with ISO 8601.
  'today at 9am': '2026-11-26T09:00:00.000Z',
  'Friday at 3pm ET': '2026-11-27T20:00:00.000Z',
  'friday at 3pm est': '2026-11-27T20:00:00.000Z',
  'fri at 15:00 America/New_York': '2026-11-27T20:00:00.000Z',
  'next friday at 15:00 utc+2': '2026-11-27T13:00:00.000Z',
  'monday at 8:05pm PT': '2026-12-01T04:05:00.000Z',
  'thursday at 11am': '2026-11-26T11:00:00.000Z',
  'thursday at 9am': '2026-12-03T09:00:00.000Z',
  'next thursday at 11am': '2026-12-03T11:00:00.000Z',
  '2026-12-01 at 9am': '2026-12-01T09:00:00.000Z',
  '2026-12-01 09:30 +05:30': '2026-12-01T04:00:00.000Z',
  // The date in this zone differs from the date in UTC.
  'today at 11pm Asia/Tokyo': '2026-11-26T14:00:00.000Z',
  'tomorrow at midnight': '2026-11-27T00:00:00.000Z',
  // Ambiguous.
  'today at midnight': null,
  'today at 12am ET': null,
  'tomorrow at 9': null,
  'tomorrow at 13pm': null,
  'tomorrow at 9:60': null,
  'tomorrow at 9am mars': null,
  'tomorrow at 9am Mars/Base': null,
  'tomorrow at 9am +99:00': null,
  'the day after tomorrow at 9am': null,
  'in 1 hour tomorrow': null,
  'in an unknown time': null,
  in: null,
  '2026-02-30 at 9am': null,
  '': null,
  friday: null,
  noon: null,
};

test('a phrase is read as the time that it names, or refused', () => {
  const read = Object.keys(PHRASES).map((phrase) => {
    const timeMs = readPhraseMs(phrase, Date.parse(NOW));
    return [phrase, timeMs === null ? null : new Date(timeMs).toISOString()];
  });
  assert.deepEqual(Object.fromEntries(read), PHRASES);
});

test('a named zone follows its summer time', () => {
  const read = (phrase: string, now: string) =>
    new Date(readPhraseMs(phrase, Date.parse(now)) ?? Number.NaN).toISOString();
  // New York changes its clocks at 2:00: forward on 8 March 2026, back on 1 November.
  const march = '2026-03-07T12:00:00Z';
  assert.equal(read('today at 9am ET', march), '2026-03-07T14:00:00.000Z');
  assert.equal(read('tomorrow at 9am ET', march), '2026-03-08T13:00:00.000Z');
  assert.equal(read('tomorrow at 2:30am ET', march), '2026-03-08T07:30:00.000Z');
  const october = '2026-10-31T12:00:00Z';
  assert.equal(read('tomorrow at 1:30am ET', october), '2026-11-01T05:30:00.000Z');
});
