import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DomainState, nextDomainState } from './verify.ts';

const HOUR_MS = 3_600_000;
const START = new Date('2026-11-21T08:00:00Z');
const after = (hours: number) => new Date(START.getTime() + hours * HOUR_MS);

const NEW: DomainState = { status: 'not_started', verifiedAt: null, failingSince: null };
const PENDING: DomainState = { ...NEW, status: 'pending' };
const VERIFIED: DomainState = { status: 'verified', verifiedAt: START, failingSince: null };
const AWAY: DomainState = { ...VERIFIED, failingSince: START };

test('a new domain is pending after a check without records or without DNS', () => {
  for (const outcome of ['unverified', 'unknown'] as const) {
    assert.deepEqual(nextDomainState(NEW, outcome, START), { ...PENDING, event: null });
    assert.deepEqual(nextDomainState(PENDING, outcome, after(1_000)), { ...PENDING, event: null });
  }
});

test('a domain is verified when its records are found, with one event', () => {
  for (const state of [NEW, PENDING]) {
    const change = nextDomainState(state, 'verified', START);
    assert.deepEqual(change, { ...VERIFIED, event: 'domain.verified' });
    assert.deepEqual(nextDomainState(change, 'verified', after(24)), { ...VERIFIED, event: null });
  }
});

test('a verified domain whose records are missing can send for 72 hours and then fails, with one event', () => {
  const first = nextDomainState(VERIFIED, 'unverified', START);
  assert.deepEqual(first, { ...AWAY, event: null });
  assert.deepEqual(nextDomainState(first, 'unverified', after(71.9)), { ...AWAY, event: null });
  const failed = nextDomainState(first, 'unverified', after(72));
  assert.deepEqual(failed, { ...AWAY, status: 'failed', event: 'domain.failed' });
  assert.equal(nextDomainState(failed, 'unverified', after(96)).event, null);
});

test('records that return in time restart the 72 hours', () => {
  const back = nextDomainState(AWAY, 'verified', after(71));
  assert.deepEqual(back, { ...VERIFIED, event: null });
  const awayAgain = nextDomainState(back, 'unverified', after(73));
  assert.deepEqual([awayAgain.status, awayAgain.failingSince], ['verified', after(73)]);
});

test('a DNS failure neither fails a domain nor extends its time', () => {
  assert.deepEqual(nextDomainState(VERIFIED, 'unknown', START), { ...VERIFIED, event: null });
  assert.deepEqual(nextDomainState(AWAY, 'unknown', after(100)), { ...AWAY, event: null });
});

test('a failed domain is verified again when its records are back', () => {
  const failed: DomainState = { ...AWAY, status: 'failed' };
  const back = nextDomainState(failed, 'verified', after(200));
  assert.deepEqual(back, {
    status: 'verified',
    verifiedAt: after(200),
    failingSince: null,
    event: 'domain.verified',
  });
});
