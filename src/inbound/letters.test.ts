import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Letters } from './letters.ts';

test('one client may send some letters a minute, and all together more, but not any number', () => {
  let nowMs = 1_000;
  const letters = new Letters({ monotonicMs: () => nowMs }, { perClient: 2, inAll: 3 });
  assert.deepEqual(
    ['a', 'a', 'a', 'b', 'b', 'c'].map((client) => letters.mayKeep(client)),
    [true, true, false, true, false, false],
  );
  nowMs += 59_999;
  assert.equal(letters.mayKeep('c'), false);
  nowMs += 1;
  assert.equal(letters.mayKeep('c'), true);
});
