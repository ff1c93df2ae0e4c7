/** Shows which providers a worker keeps in memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProviderView } from './provider-view.ts';
import { DEFAULT_PROVIDER_LIMITS } from './settings.ts';

test('a provider with waiting deliveries is kept, however many providers a worker has', async () => {
  let nowMs = 0;
  const world = { monotonicMs: () => (nowMs += 0.1) };
  const context = { world, send: () => {}, onWaitingChange: () => {} };
  const view = new ProviderView('google', { limits: DEFAULT_PROVIDER_LIMITS, context });
  const pool = view.pool('');
  const options = { isUrgent: false, timeoutMs: 60_000 };
  const session = pool.waitForSession({ key: 'mx1.google.test', transaction: null }, options);
  view.sweep();
  assert.equal(view.isIdle(1_000_000), false);

  pool.wakeAll();
  assert.equal(await session, null);
  view.sweep();
  assert.equal(view.isIdle(1_000_000), true);
});
