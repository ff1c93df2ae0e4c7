import { test } from 'node:test';
import assert from 'node:assert/strict';
import { heapGrowingPercent } from './worker-pool.ts';

const GB = 1024 ** 3;

test('the heap of workers may grow far only where each has 2 GB of memory', () => {
  assert.equal(heapGrowingPercent(2, 4 * GB), 300);
  assert.equal(heapGrowingPercent(3, 4 * GB), 75);
  assert.equal(heapGrowingPercent(1, 0.5 * GB), 75);
});
