/**
 * Shows how the status of a domain follows from one check to the next, on times that the test sets. verify.test.ts has
 * the checks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DomainState, nextDomainState, nextSigningKeys } from './verify.ts';
import { HOUR_MS } from '../../lib/units.ts';

const START = new Date('2026-11-21T08:00:00Z');
const after = (hours: number) => new Date(START.getTime() + hours * HOUR_MS);

const at = (now: Date, isLater = true) => ({ now, isLater });

const NEW: DomainState = { status: 'not_started', verifiedAt: null, failingSince: null };
const PENDING: DomainState = { ...NEW, status: 'pending' };
const VERIFIED: DomainState = { status: 'verified', verifiedAt: START, failingSince: null };
const FAILING: DomainState = { ...VERIFIED, failingSince: START };
const DEGRADED: DomainState = { ...FAILING, status: 'degraded' };

test('a new domain is pending after a check without records or without DNS', () => {
  for (const outcome of ['unverified', 'unknown'] as const) {
    assert.deepEqual(nextDomainState(NEW, outcome, at(START)), { ...PENDING, event: null });
    assert.deepEqual(nextDomainState(PENDING, outcome, at(after(1_000))), {
      ...PENDING,
      event: null,
    });
  }
});

test('a domain is verified when its records are found, with one event', () => {
  for (const state of [NEW, PENDING]) {
    const change = nextDomainState(state, 'verified', at(START));
    assert.deepEqual(change, { ...VERIFIED, event: 'domain.verified' });
    assert.deepEqual(nextDomainState(change, 'verified', at(after(24))), {
      ...VERIFIED,
      event: null,
    });
  }
});

test('a verified domain whose records are missing at two checks is degraded, and fails after 72 hours, with one event each', () => {
  const first = nextDomainState(VERIFIED, 'unverified', at(START));
  assert.deepEqual(first, { ...FAILING, event: null });
  const second = nextDomainState(first, 'unverified', at(after(0.1)));
  assert.deepEqual(second, { ...DEGRADED, event: 'domain.degraded' });
  const third = nextDomainState(second, 'unverified', at(after(71.9)));
  assert.deepEqual(third, { ...DEGRADED, event: null });
  const failed = nextDomainState(third, 'unverified', at(after(72)));
  assert.deepEqual(failed, { ...FAILING, status: 'failed', event: 'domain.failed' });
  assert.equal(nextDomainState(failed, 'unverified', at(after(96))).event, null);
  const late = nextDomainState(first, 'unverified', at(after(80)));
  assert.equal(late.event, 'domain.failed', 'no second check within 72 hours');
});

test('two checks at the same time count as one', () => {
  const same = nextDomainState(FAILING, 'unverified', at(after(0.1), false));
  assert.deepEqual(same, { ...FAILING, event: null });
});

test('a degraded domain whose records are back has recovered, with one event', () => {
  const back = nextDomainState(DEGRADED, 'verified', at(after(5)));
  assert.deepEqual(back, { ...VERIFIED, event: 'domain.recovered' });
  assert.equal(nextDomainState(back, 'verified', at(after(6))).event, null);
});

test('a key signs while it is published; RSA also signs while DNS does not answer', () => {
  const both = { rsaPublished: true, ed25519Verified: true };
  const gone = { rsa: false, ed25519: true };
  assert.deepEqual(nextSigningKeys(both, gone, 'verified'), both, 'the first check');
  const onlyEd25519 = { rsaPublished: false, ed25519Verified: true };
  assert.deepEqual(nextSigningKeys(both, gone, 'degraded'), onlyEd25519);
  const unknown = { rsa: null, ed25519: null };
  for (const keys of [both, onlyEd25519]) {
    assert.deepEqual(nextSigningKeys(keys, unknown, 'degraded'), keys);
  }
  assert.deepEqual(nextSigningKeys(onlyEd25519, { rsa: true, ed25519: false }, 'verified'), {
    rsaPublished: true,
    ed25519Verified: false,
  });
});

test('records that return in time restart the 72 hours', () => {
  const back = nextDomainState(FAILING, 'verified', at(after(71)));
  assert.deepEqual(back, { ...VERIFIED, event: null });
  const awayAgain = nextDomainState(back, 'unverified', at(after(73)));
  assert.deepEqual([awayAgain.status, awayAgain.failingSince], ['verified', after(73)]);
});

test('a DNS failure neither fails a domain nor extends its time', () => {
  assert.deepEqual(nextDomainState(VERIFIED, 'unknown', at(START)), { ...VERIFIED, event: null });
  for (const state of [FAILING, DEGRADED]) {
    assert.deepEqual(nextDomainState(state, 'unknown', at(after(100))), { ...state, event: null });
  }
});

test('a failed domain is verified again when its records are back', () => {
  const failed: DomainState = { ...FAILING, status: 'failed' };
  const back = nextDomainState(failed, 'verified', at(after(200)));
  assert.deepEqual(back, {
    status: 'verified',
    verifiedAt: after(200),
    failingSince: null,
    event: 'domain.verified',
  });
});
