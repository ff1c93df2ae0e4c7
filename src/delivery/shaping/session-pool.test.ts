/**
 * Shows how often a pool looks for idle sessions, on a fake clock. smtp-connections.test.ts has its sessions over real
 * sockets.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { SessionPool } from './session-pool.ts';
import { limitsOf, DEFAULT_SHAPING } from './settings.ts';

/** A pool with a waiting message, so that it sweeps while others wait. Counts its calls of the clock. */
function waitingPool(): { pool: SessionPool; clock: { calls: number } } {
  const clock = { calls: 0 };
  const pool = new SessionPool(
    { provider: 'receiver.test', source: '' },
    {
      limits: limitsOf(DEFAULT_SHAPING, 'receiver.test'),
      window: 1,
      context: {
        world: { monotonicMs: () => (clock.calls += 1) },
        send: () => {},
        onWaitingChange: () => {},
      },
    },
  );
  void pool.waitForSession(
    { key: 'mx', transaction: null },
    { isUrgent: false, timeoutMs: 3600_000 },
  );
  return { pool, clock };
}

function setOthersWait(pool: SessionPool, othersWait: boolean): void {
  const { provider, source, share, window } = pool;
  pool.applyShare({ kind: 'pool', provider, source, share, window, othersWait });
}

/** Returns the number of calls in 20 intervals. */
function callsLater(clock: { calls: number }): number {
  const before = clock.calls;
  for (let interval = 0; interval < 20; interval += 1) mock.timers.tick(50);
  return clock.calls - before;
}

test('a pool sweeps once per interval, even if others stop and begin waiting several times', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { pool, clock } = waitingPool();
    for (let times = 0; times < 5; times += 1) {
      setOthersWait(pool, true);
      setOthersWait(pool, false);
    }
    setOthersWait(pool, true);
    assert.equal(callsLater(clock), 20);
  } finally {
    mock.timers.reset();
  }
});

test('a closed pool stops sweeping, even after later messages of the broker', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { pool, clock } = waitingPool();
    setOthersWait(pool, true);
    await pool.close();
    assert.equal(callsLater(clock), 0);
    setOthersWait(pool, false);
    setOthersWait(pool, true);
    assert.equal(callsLater(clock), 0);
  } finally {
    mock.timers.reset();
  }
});
