/** Periods of the overview in the viewer's time zone, and with what they are compared. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { comparedWith, isoDate, labelOfComparison, periodOf, statsTimes } from './periods.ts';

const HOUR_MS = 3_600_000;
const at = (text: string): number => new Date(text).getTime();
/** Local time, so that the test holds in every zone. */
const NOW = at('2026-11-25T10:42:00');

const timesOf = (key: string) => {
  const { parts } = periodOf(key, NOW);
  return [parts[0]!.startMs, parts.at(-1)!.endMs, parts.length];
};

test('yesterday is the whole day before today, by hours, and is compared with the day before', () => {
  assert.deepEqual(timesOf('yesterday'), [
    at('2026-11-24T00:00:00'),
    at('2026-11-25T00:00:00'),
    24,
  ]);
  const before = comparedWith(periodOf('yesterday', NOW), undefined, NOW)!;
  assert.equal(before.label, 'Day before');
  assert.equal(before.parts[0]!.startMs, at('2026-11-23T00:00:00'));
  assert.equal(before.parts.at(-1)!.endMs, at('2026-11-24T00:00:00'));
});

test('today ends at midnight, and the last 24 hours with the present hour', () => {
  assert.deepEqual(timesOf('today'), [at('2026-11-25T00:00:00'), at('2026-11-26T00:00:00'), 24]);
  const { parts } = periodOf(undefined, NOW);
  assert.equal(parts.length, 24);
  assert.ok(parts.at(-1)!.endMs > NOW && parts.at(-1)!.endMs <= NOW + HOUR_MS);
});

test('longer periods have longer parts', () => {
  assert.equal(timesOf('7d')[2], 28);
  assert.equal(timesOf('30d')[2], 30);
  assert.equal(timesOf('2026-11-20..2026-11-21')[2], 48);
  assert.equal(timesOf('2026-11-10..2026-11-20')[2], 11);
});

test('days are asked for in the zone of the viewer, and in UTC when the hours are gone', () => {
  const month = statsTimes(periodOf('30d', NOW));
  assert.equal(month.granularity, 'day');
  assert.equal(typeof month.zone, 'string');
  const before = comparedWith(periodOf('30d', NOW), 'before', NOW)!;
  const times = statsTimes(before);
  assert.deepEqual([times.granularity, times.zone], ['day', undefined]);
  assert.equal(times.from, '2026-09-27T00:00:00.000Z');
  assert.equal(before.parts.length, 30);
});

test('a period is compared with any other that begins on a chosen day', () => {
  const period = periodOf('yesterday', NOW);
  const week = comparedWith(period, 'week', NOW)!;
  assert.equal(isoDate(week.parts[0]!.startMs), '2026-11-17');
  const chosen = comparedWith(period, '2026-11-03', NOW)!;
  assert.equal(isoDate(chosen.parts[0]!.startMs), '2026-11-03');
  assert.match(labelOfComparison(period, '2026-11-03'), /3/);
  assert.equal(comparedWith(period, 'none', NOW), null);
  assert.equal(comparedWith(period, '2026-08-01', NOW), null, 'its hours are gone');
});

test('an address with wrong dates shows the last 24 hours', () => {
  for (const key of [
    'x',
    '2026-11-22..2026-11-20',
    '2026-02-30..2026-03-01',
    '2027-01-01..2027-01-02',
    '2020-01-01..2026-01-01',
  ]) {
    assert.equal(periodOf(key, NOW).key, '24h', key);
  }
});
