/** Limits on received messages that belong to no email, for each client and for all. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UnmatchedRate } from './unmatched-rate.ts';

test('unmatched messages a minute are limited for one client and for all', () => {
  let nowMs = 1_000;
  const rate = new UnmatchedRate(
    { monotonicMs: () => nowMs },
    { perClient: { messages: 2, bytes: 1_000 }, total: { messages: 3, bytes: 1_000 } },
  );
  assert.deepEqual(
    ['a', 'a', 'a', 'b', 'b', 'c'].map((client) => rate.tryCount(client, 10)),
    [true, true, false, true, false, false],
  );
  nowMs += 59_999;
  assert.equal(rate.tryCount('c', 10), false);
  nowMs += 1;
  assert.equal(rate.tryCount('c', 10), true);
});

test('octets of unmatched mail a minute are limited for one client and for all', () => {
  let nowMs = 1_000;
  const rate = new UnmatchedRate(
    { monotonicMs: () => nowMs },
    { perClient: { messages: 100, bytes: 100 }, total: { messages: 100, bytes: 150 } },
  );
  assert.deepEqual(
    [
      ['a', 60],
      ['a', 41],
      ['a', 40],
      ['b', 51],
      ['b', 50],
    ].map(([client, bytes]) => rate.tryCount(String(client), Number(bytes))),
    [true, false, true, false, true],
  );
  nowMs += 60_000;
  assert.equal(rate.tryCount('b', 100), true);
});
