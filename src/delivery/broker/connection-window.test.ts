/** The number of connections that a provider may have, alone: how it grows, halves and grows again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_SHAPING } from '../shaping/settings.ts';
import { ConnectionWindow } from './connection-window.ts';

const { holdDownMs, stepMs, tryAgainAfterMs } = DEFAULT_SHAPING.recovery;

function grown(limit: number): ConnectionWindow {
  const window = new ConnectionWindow(limit, DEFAULT_SHAPING.recovery);
  window.grow(limit, 0);
  return window;
}

test('a new provider gets two connections, and one more with each message', () => {
  const window = new ConnectionWindow(5, DEFAULT_SHAPING.recovery);
  const sizes = [window.size];
  for (let message = 0; message < 5; message += 1) {
    window.grow(1, 0);
    sizes.push(window.size);
  }
  assert.deepEqual(sizes, [2, 3, 4, 5, 5, 5]);
  assert.equal(new ConnectionWindow(1, DEFAULT_SHAPING.recovery).size, 1);
});

test('a provider that reports too many connections gets half, once per complaint, and at least one', () => {
  const window = grown(20);
  assert.equal(window.shrink(0), true);
  assert.equal(window.shrink(100), false);
  assert.equal(window.size, 10);
  for (let nowMs = 10_000; nowMs < 100_000; nowMs += 10_000) window.shrink(nowMs);
  assert.equal(window.size, 1);
});

test('a refused new connection counts, even right after another complaint', () => {
  const window = grown(20);
  window.shrink(1_000, 50);
  assert.equal(window.shrink(1_040, 60), false, 'it was opened before the complaint');
  assert.equal(window.shrink(1_040, 20), true);
  assert.equal(window.size, 5);
});

test('after a pause connections grow one by one up to the number that was too many', () => {
  const window = grown(10);
  window.shrink(0);
  window.grow(100, holdDownMs - 1);
  assert.equal(window.size, 5);
  for (let nowMs = holdDownMs; nowMs < tryAgainAfterMs; nowMs += stepMs / 2)
    window.grow(100, nowMs);
  assert.equal(window.size, 9);
  assert.equal(window.isReduced, true);
  window.grow(1, tryAgainAfterMs);
  assert.deepEqual([window.size, window.isReduced], [10, false]);
});

test('a number that is too many again is tried after a longer wait each time', () => {
  const window = grown(10);
  const tries: number[] = [];
  window.shrink(0);
  for (let nowMs = 0; nowMs < 4 * 3600_000; nowMs += stepMs) {
    window.grow(1, nowMs);
    if (window.size < 10) continue;
    tries.push(nowMs);
    window.shrink(nowMs);
  }
  const pauses = tries.slice(1).map((triedAtMs, index) => triedAtMs - tries[index]!);
  assert.deepEqual(
    pauses,
    pauses.toSorted((one, other) => one - other),
  );
  assert.ok(tries.length < 10, `${tries.length} tries in four hours`);
});
