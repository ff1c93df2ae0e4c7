import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PhaseTimer } from './phase-timer.ts';

test('each phase has its time, phases at a second server are added, and short ones are left out', () => {
  let nowMs = 1_000;
  const timer = new PhaseTimer({ monotonicMs: () => nowMs });
  const pass = (ms: number): void => void (nowMs += ms);
  timer.begin();
  pass(41);
  timer.end('dns');
  pass(500); // is in no phase
  for (const connectMs of [30, 7]) {
    timer.begin();
    pass(0.3);
    timer.end('wait');
    pass(connectMs);
    timer.onStep('connected');
    pass(100); // greeting and EHLO
    timer.onStep('tls_begun');
    pass(46);
    timer.onStep('tls_ended');
  }
  assert.deepEqual(timer.times, { dns: 41, wait: 1, connect: 37, tls: 92 });
});

test('a reused session has no phases', () => {
  const timer = new PhaseTimer({ monotonicMs: () => 5 });
  timer.begin();
  timer.end('dns');
  timer.begin();
  timer.end('wait');
  assert.deepEqual(timer.times, {});
});
