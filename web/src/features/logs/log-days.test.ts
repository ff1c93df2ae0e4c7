/** Days of the logs are those of the member's zone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayOf, timesOf } from './log-days.ts';

test('a day begins and ends at midnight where the member is, also when the clocks change', () => {
  const zone = process.env['TZ'];
  process.env['TZ'] = 'Europe/Berlin';
  try {
    assert.deepEqual(timesOf({ from: '2026-10-25', to: '2026-10-25' }), {
      from: '2026-10-24T22:00:00.000Z',
      to: '2026-10-25T23:00:00.000Z',
    });
    const nowMs = Date.parse('2026-11-30T23:30:00Z');
    assert.deepEqual([dayOf(0, nowMs), dayOf(1, nowMs)], ['2026-12-01', '2026-11-30']);
    assert.deepEqual(timesOf({}), { from: undefined, to: undefined });
    // A date field has a year of five digits while somebody types, and the address may have anything.
    for (const wrong of ['20261-01-01', '2026-13-01', 'x', '']) {
      assert.deepEqual(timesOf({ from: wrong, to: wrong }), { from: undefined, to: undefined });
    }
  } finally {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  }
});
