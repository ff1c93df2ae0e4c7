/** Shows when senders are asked to stop because outcomes cannot be stored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SettleHealth } from './settle-health.ts';

test('settling is healthy until the database is unavailable, and again once a batch is stored', async () => {
  const health = new SettleHealth();
  health.batchStarted();
  assert.equal(health.isStalled, false);
  assert.equal(await health.waitForRecovery(0), true);
  health.markStalled();
  assert.equal(health.isStalled, true);
  assert.equal(await health.waitForRecovery(1), false);
  const waiting = [health.waitForRecovery(60_000), health.waitForRecovery(60_000)];
  health.batchStored();
  assert.deepEqual(await Promise.all(waiting), [true, true]);
  assert.equal(health.isStalled, false);
});

test('settling is stalled while a batch takes more than two seconds', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const health = new SettleHealth();
  health.batchStarted();
  t.mock.timers.tick(1_999);
  assert.equal(health.isStalled, false);
  t.mock.timers.tick(1);
  assert.equal(health.isStalled, true);
  health.batchStored();
  health.batchStarted();
  t.mock.timers.tick(1_999);
  assert.equal(health.isStalled, false);
  health.batchStored();
});
