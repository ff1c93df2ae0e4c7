/**
 * Shows how far back a poll of a queue reads. src/delivery/queue/queue-claims.test.ts has claims in a real database.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LowWaterMark } from './leased-queue.ts';

test('claims read from a margin below the mark, and once a minute everything', () => {
  const clock = { nowMs: 0 };
  const lowWater = new LowWaterMark({ monotonicMs: () => clock.nowMs });
  assert.equal(lowWater.nextStartMs(100), -Infinity);
  lowWater.raiseTo(1_000);
  clock.nowMs = 59_999;
  assert.equal(lowWater.nextStartMs(100), 900);
  clock.nowMs = 60_000;
  assert.equal(lowWater.nextStartMs(100), -Infinity);
  assert.equal(lowWater.nextStartMs(100), 900);
});

test("claims read everything after the database's clock went back, and after a statement without a result", () => {
  const lowWater = new LowWaterMark({ monotonicMs: () => 0 });
  lowWater.nextStartMs(0);
  assert.deepEqual(
    [lowWater.resetIfClockWentBack(5_000), lowWater.resetIfClockWentBack(5_001)],
    [false, false],
  );
  lowWater.raiseTo(5_001);
  assert.equal(lowWater.resetIfClockWentBack(5_000), true);
  assert.equal(lowWater.nextStartMs(0), -Infinity);
  lowWater.raiseTo(5_000);
  lowWater.reset();
  assert.equal(lowWater.nextStartMs(0), -Infinity);
});
