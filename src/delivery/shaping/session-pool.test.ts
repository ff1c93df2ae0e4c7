import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { SessionPool } from './session-pool.ts';
import { limitsOf, DEFAULT_SHAPING } from './settings.ts';

/** A pool that has a message waiting, so that it sweeps while others wait; counts the looks at the clock. */
function waitingPool(): { pool: SessionPool; clock: { looks: number } } {
  const clock = { looks: 0 };
  const pool = new SessionPool(
    { provider: 'receiver.test', source: '' },
    {
      limits: limitsOf(DEFAULT_SHAPING, 'receiver.test'),
      window: 1,
      context: {
        world: { monotonicMs: () => (clock.looks += 1) },
        send: () => {},
        waitingChanged: () => {},
      },
    },
  );
  void pool.turn({ key: 'mx', transaction: null }, { isUrgent: false, timeoutMs: 3600_000 });
  return { pool, clock };
}

function setOthersWait(pool: SessionPool, othersWait: boolean): void {
  const { provider, source, share, window } = pool;
  pool.update({ kind: 'pool', provider, source, share, window, othersWait });
}

/** The number of looks in 20 intervals. */
function looksLater(clock: { looks: number }): number {
  const before = clock.looks;
  for (let interval = 0; interval < 20; interval += 1) mock.timers.tick(50);
  return clock.looks - before;
}

test('a pool sweeps once an interval, however often others stop to wait and begin again', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { pool, clock } = waitingPool();
    for (let times = 0; times < 5; times += 1) {
      setOthersWait(pool, true);
      setOthersWait(pool, false);
    }
    setOthersWait(pool, true);
    assert.equal(looksLater(clock), 20);
  } finally {
    mock.timers.reset();
  }
});

test('a closed pool sweeps no more, whatever the broker says later', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { pool, clock } = waitingPool();
    setOthersWait(pool, true);
    await pool.close();
    assert.equal(looksLater(clock), 0);
    setOthersWait(pool, false);
    setOthersWait(pool, true);
    assert.equal(looksLater(clock), 0);
  } finally {
    mock.timers.reset();
  }
});
