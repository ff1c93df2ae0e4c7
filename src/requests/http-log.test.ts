/** The number of entries that a project may add to the API log. test/api/api-log.test.ts has their content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EntriesPerMinute } from './http-log.ts';

test('a project has a hundred entries a minute, regardless of other projects', () => {
  let nowMs = 1_000_000;
  const turns = new EntriesPerMinute({ monotonicMs: () => nowMs });
  const taken = (project: string, count: number) =>
    Array.from({ length: count }, () => turns.take(project)).filter(Boolean).length;
  assert.equal(taken('one', 130), 100);
  assert.equal(taken('two', 20), 20);
  nowMs += 59_999;
  assert.equal(taken('one', 1), 0);
  nowMs += 1;
  assert.equal(taken('one', 130), 100);
});
