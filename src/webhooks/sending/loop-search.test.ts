/**
 * Shows when the loop looks for due deliveries and how far back, on clocks that the test moves. loop.test.ts sends
 * webhooks.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createAddressGuard } from '../../net/ip-addresses.ts';
import { SETTLING } from '../../../test/support/mail-store.ts';
import type { Queryable } from '../../database/database.ts';
import { SecretBox } from '../../secrets/secret-box.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import { WebhookLoop } from './loop.ts';

/** A loop on clocks that the test moves. Records when it searched for due deliveries, and from which time on. */
function scene(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // The database's clock differs from ours as much as it may.
  const clock = { nowMs: 0, databaseAheadMs: 1_000_000 };
  const searches: { atMs: number; sinceMs: number }[] = [];
  const due = { count: 0 };
  const query: Queryable['query'] = (statement, values) => {
    if (typeof statement !== 'object' || statement.name !== 'webhooks_due')
      return Promise.resolve([]);
    searches.push({ atMs: clock.nowMs, sinceMs: values?.[0] as number });
    const seen = { nowMs: clock.nowMs + clock.databaseAheadMs, hasReplays: false };
    const endpoint = { projectId: 'p', endpointId: 'e', lowWaterMs: 0, isInactive: false };
    const rows = due.count > 0 ? [{ ...endpoint, ...seen }] : [{ projectId: null, ...seen }];
    due.count = Math.max(0, due.count - 1);
    return Promise.resolve(rows as never[]);
  };
  const loop = new WebhookLoop({
    ...SETTLING,
    world: { ...systemWorld, monotonicMs: () => clock.nowMs },
    log: { ...SETTLING.log, info() {}, warn() {}, error() {} },
    db: { webhooks: { query } },
    secrets: new SecretBox('x'.repeat(32)),
    resolver: { a: () => assert.fail(), aaaa: () => assert.fail() },
    guard: createAddressGuard({ allowPrivate: true }),
    otherFormats: { resend: () => assert.fail() },
    leaseId: () => 'worker',
    isFresh: () => true,
    checksRequested: () => 0,
  });
  const advance = async (ms: number): Promise<typeof searches> => {
    for (let passed = 0; passed < ms; passed += 5) {
      clock.nowMs += 5;
      t.mock.timers.tick(5);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return searches.splice(0);
  };
  loop.start();
  return { loop, clock, due, advance, seenAt: (nowMs: number) => nowMs + clock.databaseAheadMs };
}

test('a search covers new deliveries, every 2 s the last 20 s, and every minute everything', async (t) => {
  const { due, advance, seenAt } = scene(t);
  due.count = 100;
  assert.deepEqual(await advance(3_050), [
    { atMs: 5, sinceMs: -Infinity },
    { atMs: 1_005, sinceMs: seenAt(5) - 250 },
    { atMs: 2_005, sinceMs: seenAt(1_005) - 20_000 },
    { atMs: 3_005, sinceMs: seenAt(2_005) - 250 },
  ]);
  const later = await advance(60_000);
  assert.deepEqual(
    later.filter(({ sinceMs }) => sinceMs === -Infinity).map(({ atMs }) => atMs),
    [60_005],
  );
});

test('a queued delivery starts a search at once, at most every 20 ms', async (t) => {
  const { loop, due, advance, seenAt } = scene(t);
  due.count = 3;
  await advance(505);
  for (let wakes = 0; wakes < 5; wakes += 1) loop.wake();
  assert.deepEqual(await advance(5), [{ atMs: 510, sinceMs: seenAt(5) - 250 }]);
  loop.wake();
  assert.deepEqual(await advance(100), [{ atMs: 530, sinceMs: seenAt(510) - 250 }]);
});

test('after 10 s without work the loop searches every 2 s, until it finds some', async (t) => {
  const { due, advance } = scene(t);
  due.count = 1;
  const quiet = (await advance(15_000)).map(({ atMs }) => atMs);
  assert.deepEqual(quiet.slice(-4), [9_005, 10_005, 12_005, 14_005]);
  due.count = 1;
  const found = (await advance(3_000)).map(({ atMs }) => atMs);
  assert.deepEqual(
    found,
    [16_005, 17_005, 18_005].filter((atMs) => atMs <= 18_000),
  );
});

test("after the database's clock went back the next search is soon and covers everything", async (t) => {
  const { clock, due, advance } = scene(t);
  due.count = 100;
  await advance(500);
  clock.databaseAheadMs -= 180_000;
  const [back, next] = await advance(1_000);
  assert.deepEqual([back?.atMs, next], [1_005, { atMs: 1_025, sinceMs: -Infinity }]);
});
