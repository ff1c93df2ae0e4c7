import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LowWater } from './leased-queue.ts';

test('claims read from a margin below the mark, and once a minute everything', () => {
  const clock = { nowMs: 0 };
  const lowWater = new LowWater({ monotonicMs: () => clock.nowMs });
  assert.equal(lowWater.fromMs(100), -Infinity);
  lowWater.raise(1_000);
  clock.nowMs = 59_999;
  assert.equal(lowWater.fromMs(100), 900);
  clock.nowMs = 60_000;
  assert.equal(lowWater.fromMs(100), -Infinity);
  assert.equal(lowWater.fromMs(100), 900);
});

test("claims read everything after the database's clock went back, and after a statement without an answer", () => {
  const lowWater = new LowWater({ monotonicMs: () => 0 });
  lowWater.fromMs(0);
  assert.deepEqual([lowWater.wentBack(5_000), lowWater.wentBack(5_001)], [false, false]);
  lowWater.raise(5_001);
  assert.equal(lowWater.wentBack(5_000), true);
  assert.equal(lowWater.fromMs(0), -Infinity);
  lowWater.raise(5_000);
  lowWater.startAnew();
  assert.equal(lowWater.fromMs(0), -Infinity);
});
