/** Shows which providers a worker keeps in memory, and as what it reports them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainProviderWait } from './provider-state.ts';
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

type Reported = { state: 'open' | 'slowed' | 'suspended'; forMs: number; waitMs: number };

function explained(reported: Reported, reason: string | null) {
  const context = {
    world: { monotonicMs: () => 1_000 },
    send: () => {},
    onWaitingChange: () => {},
  };
  const limits = { ...DEFAULT_PROVIDER_LIMITS, messagesPerMinute: 2 };
  const view = new ProviderView('yahoo', { limits, context });
  view.pool('');
  view.receive({ provider: 'yahoo', reason, ...reported });
  const { state, untilMs, window, open } = view.describe();
  const facts = { state, reason, forMs: untilMs && untilMs - 1_000, isUplinkDown: false };
  const counts = { connectionsMax: window, connectionsOpen: open };
  return { state, ...explainProviderWait('Yahoo', { ...facts, ...counts }) };
}

test('a provider that replied with a rate is slowed until the next message, and not suspended', () => {
  const paced = { state: 'slowed', forMs: 3_600_000, waitMs: 60_000 } as const;
  assert.deepEqual(explained(paced, '451 4.7.0 [TSS04] Mail from jo@other.test is deferred'), {
    state: 'slowed',
    limit: 'rate',
    message:
      'Yahoo replied 451 4.7.0, which asks for slower sending: at most 2 connections for another 60 min.',
  });
  assert.match(explained(paced, '421 Too many').message ?? '', /^Yahoo replied 421, which/);
  assert.match(explained(paced, null).message ?? '', /^Yahoo asked for slower sending:/);
});

test('a configured message rate makes a provider full, without blaming its servers', () => {
  assert.deepEqual(explained({ state: 'open', forMs: 0, waitMs: 30_000 }, null), {
    state: 'full',
    limit: 'rate',
    message:
      'Yahoo has had as many messages in a minute as its settings permit. The next one may start in 30 s.',
  });
});

test('a suspension says what the last server did instead of opening a session', () => {
  const out = { state: 'suspended', forMs: 60_000, waitMs: 60_000 } as const;
  for (const failure of [
    'No connection (ECONNREFUSED).',
    'No connection within 30 s.',
    'The server did not reply for 300 s.',
    'The server closed the connection.',
  ]) {
    const { state, limit, message } = explained(out, `mta5.yahoo.test [192.0.2.1]: ${failure}`);
    assert.deepEqual([state, limit], ['suspended', 'suspension']);
    assert.equal(
      message,
      `Deliveries to Yahoo are suspended for another 60 s, because its servers open no session (mta5.yahoo.test [192.0.2.1]: ${failure.slice(0, -1)}).`,
    );
  }
  // A node of an older version stores a reply there, which may be about the mail of others.
  const foreign = explained(out, '[TSS04] jo@other.test is deferred');
  assert.doesNotMatch(foreign.message ?? '', /other\.test/);
});
