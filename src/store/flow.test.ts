import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Flow } from './flow.ts';

test('things move until the database is away, and again as soon as a batch is through', async () => {
  const flow = new Flow();
  flow.begun();
  assert.equal(flow.isStuck, false);
  assert.equal(await flow.moves(0), true);
  flow.stuck();
  assert.equal(flow.isStuck, true);
  assert.equal(await flow.moves(1), false);
  const waiting = [flow.moves(60_000), flow.moves(60_000)];
  flow.through();
  assert.deepEqual(await Promise.all(waiting), [true, true]);
  assert.equal(flow.isStuck, false);
});

test('a batch that is under way for more than two seconds is stuck', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const flow = new Flow();
  flow.begun();
  t.mock.timers.tick(1_999);
  assert.equal(flow.isStuck, false);
  t.mock.timers.tick(1);
  assert.equal(flow.isStuck, true);
  flow.through();
  flow.begun();
  t.mock.timers.tick(1_999);
  assert.equal(flow.isStuck, false);
  flow.through();
});
