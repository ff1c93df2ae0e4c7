/** Shows how far the heap of workers may grow, by the memory of the machine. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { chooseV8Flags } from './worker-pool.ts';
import { GIB } from '../../lib/units.ts';

test('the young generation begins at its full size only where each worker has 2 GB of memory', () => {
  const young = (memory: number, workers: number) =>
    chooseV8Flags(memory, workers).atStart.includes('--min-semi-space-size=16');
  assert.equal(young(4 * GIB, 2), true);
  assert.equal(young(4 * GIB, 3), false);
});

test('the heap of workers may grow far only where each has 2 GB of memory', () => {
  const growing = (memory: number, workers: number) => chooseV8Flags(memory, workers).whenLoaded;
  assert.equal(growing(4 * GIB, 2), '--heap-growing-percent=300');
  assert.equal(growing(4 * GIB, 3), '--heap-growing-percent=75');
  assert.equal(growing(0.5 * GIB, 1), '--heap-growing-percent=75');
});
