/** Figures of a period: shares, changes, and what an unfinished hour does to them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stats } from '../../../../../sdk/src/api.ts';
import {
  changeOf,
  comparedSums,
  countParts,
  marksUpTo,
  percent,
  pointsOf,
  shareOf,
  sharesOf,
  sum,
} from './figures.ts';

const HOUR_MS = 3_600_000;
const partsFrom = (startMs: number) =>
  [0, 1, 2].map((index) => ({
    startMs: startMs + index * HOUR_MS,
    endMs: startMs + (index + 1) * HOUR_MS,
  }));

const rowAt = (ms: number, counts: object) => ({
  period: new Date(ms).toISOString(),
  emails: 0,
  recipients: 0,
  delivered: 0,
  sent: 0,
  deferred: 0,
  bounced: 0,
  failed: 0,
  complained: 0,
  time_to_delivery: { count: 0, p95_at_most_s: null },
  ...counts,
});
const statsOf = (...rows: object[]) => ({ data: rows }) as unknown as Stats;

test('counts belong to the part in which they happened, and all parts are there', () => {
  const stats = statsOf(
    rowAt(0, { delivered: 3, sent: 1, bounced: 1, failed: 1 }),
    rowAt(2 * HOUR_MS, { delivered: 5, time_to_delivery: { count: 5, p95_at_most_s: 2 } }),
    rowAt(9 * HOUR_MS, { delivered: 100 }),
  );
  const parts = countParts(stats, partsFrom(0), 2.5 * HOUR_MS);
  assert.deepEqual(
    parts.map(({ delivered, bounced, isUnfinished, slowestS }) => [
      delivered,
      bounced,
      isUnfinished,
      slowestS,
    ]),
    [
      [4, 2, false, null],
      [0, 0, false, null],
      [5, 0, true, 2],
    ],
  );
  assert.equal(shareOf(sum(parts), 'bounced'), 2 / 11);
});

test('a part with few recipients has no share beside parts with many', () => {
  const few = rowAt(0, { delivered: 1, bounced: 1 });
  const shares = (...rows: object[]) =>
    sharesOf(countParts(statsOf(...rows), partsFrom(0), 9 * HOUR_MS), 'bounced');
  assert.deepEqual(shares(few), [0.5, null, null]);
  assert.deepEqual(shares(few, rowAt(HOUR_MS, { delivered: 90, bounced: 10 })), [null, 0.1, null]);
});

test('the unfinished part is compared with nothing', () => {
  const now = countParts(statsOf(rowAt(0, { delivered: 10 })), partsFrom(0), 2.5 * HOUR_MS);
  const dayBefore = statsOf(rowAt(0, { delivered: 8 }), rowAt(2 * HOUR_MS, { delivered: 50 }));
  const before = countParts(dayBefore, partsFrom(0), 9 * HOUR_MS);
  const sums = comparedSums(now, before)!;
  assert.deepEqual([sums.now.delivered, sums.before.delivered], [10, 8]);
  assert.equal(comparedSums(now, null), null);
});

test('shares and changes are written as people read them', () => {
  assert.equal(percent(null), '–');
  assert.equal(pointsOf(null, 0.5), null);
  assert.equal(changeOf(5, 0), null);
  assert.match(changeOf(9, 10)!, /^−10/);
  assert.equal(changeOf(1_200, 29), 'was 29');
  assert.match(pointsOf(0.035, 0.012)!, /^\+2.3 pts$/);
  assert.match(pointsOf(0.5, 0.5)!, /^±0.0 pts$/);
});

test('the marks of an axis are round and reach the largest value', () => {
  assert.deepEqual(marksUpTo(740), [0, 200, 400, 600, 800]);
  assert.deepEqual(marksUpTo(3), [0, 1, 2, 3]);
  assert.deepEqual(marksUpTo(0), [0, 1]);
  assert.ok(marksUpTo(0.21).at(-1)! >= 0.21);
});
