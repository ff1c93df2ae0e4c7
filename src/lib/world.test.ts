/** The difference of two clocks: only what the time of the answer does not explain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leastSkewMs } from './world.ts';

test('the time that another clock takes to answer does not count as a difference', () => {
  assert.equal(leastSkewMs({ begunMs: 1_000, otherMs: 5_000, endedMs: 90_000 }), 0);
  assert.equal(leastSkewMs({ begunMs: 1_000, otherMs: 400, endedMs: 90_000 }), 600);
  assert.equal(leastSkewMs({ begunMs: 1_000, otherMs: 95_000, endedMs: 90_000 }), -5_000);
});
