/** Tests the waiting for assertions, on which all tests of later effects rely. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from './wait.ts';

test('assertions are repeated until all of them hold', async () => {
  let looks = 0;
  await eventually(async () => {
    looks += 1;
    assert.ok(looks >= 2, 'the first');
    assert.ok(looks >= 3, 'the second');
  });
  assert.equal(looks, 3);
});

test('assertions that never hold fail with the error of the last check', async () => {
  let looks = 0;
  const never = () => {
    looks += 1;
    assert.fail(`look ${looks}`);
  };
  await assert.rejects(eventually(never, { timeoutMs: 50 }), ({ message }: Error) => {
    assert.equal(message, `look ${looks}`);
    return true;
  });
});
