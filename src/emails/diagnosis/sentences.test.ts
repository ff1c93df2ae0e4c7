/** Shows what a diagnosis says about mail that waits. test/journey/diagnosis.test.ts asks a whole service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredProviderState } from '../../delivery/shaping/provider-state-store.ts';
import { explainWait } from './sentences.ts';

type Waiting = Parameters<typeof explainWait>[0];

const DUE_AT = new Date('2026-11-21T08:30:00.000Z');

const waiting = (
  change: Partial<Waiting> = {},
  state: Partial<Waiting['state']> = {},
): Waiting => ({
  state: {
    attempt: null,
    attemptedAt: null,
    provider: 'a.test',
    dueAt: DUE_AT,
    dueInMs: 0,
    isWithWorker: false,
    isOnHold: false,
    dropsAt: null,
    ...state,
  },
  recipient: {
    address: 'jo@a.test',
    kind: 'to',
    status: 'queued',
    attempts: 0,
    next_attempt_at: null,
    completed_at: null,
    reason: null,
    smtp: null,
  },
  sender: {
    domainId: 'd',
    dualSigned: true,
    expiresAt: DUE_AT,
    tls: null,
    domainStatus: 'verified',
    isPaused: false,
    isKeyUnusable: false,
    hasWorkers: true,
    onHoldSince: null,
  },
  scheduledAt: null,
  provider: null,
  ahead: 0,
  isSettlingStalled: false,
  ...change,
});

const provider = (
  state: StoredProviderState['state'],
  forMs: number | null = null,
): StoredProviderState => ({
  provider: 'a.test',
  state,
  reason: '421 4.7.0 jo@another-project.test sends too fast',
  forMs,
  connectionsMax: 3,
  connectionsOpen: 3,
  isUplinkDown: false,
});

test('mail that a worker is delivering waits for the limit that the worker meets', () => {
  const busy = { isWithWorker: true };
  const limitOf = (change: Partial<Waiting>) => explainWait(waiting(change, busy)).limit;
  assert.equal(limitOf({}), 'attempt');
  assert.equal(limitOf({ isSettlingStalled: true }), 'database');
  assert.equal(limitOf({ provider: provider('full') }), 'connections');
  assert.equal(limitOf({ provider: provider('slowed', 5_000) }), 'rate');
});

test('a limit is explained with its figures, and without replies to mail of other projects', () => {
  const full = explainWait(waiting({ provider: provider('full') }));
  assert.equal(full.message, 'All 3 connections to a.test are in use, of 3 allowed.');
  const slowed = explainWait(waiting({ provider: provider('slowed', 5_000) }));
  assert.match(
    slowed.message,
    /^a\.test replied 421 4\.7\.0, which .* at most 3 connections for another 5 s\.$/,
  );
  assert.doesNotMatch(slowed.message + full.message, /another-project/);
});

test('due mail waits for its turn behind older mail of the project', () => {
  assert.match(
    explainWait(waiting({ ahead: 7 })).message,
    /^7 recipients of this project at a\.test/,
  );
  assert.match(explainWait(waiting({ ahead: 1_000 })).message, /^1000 or more recipients/);
  assert.match(explainWait(waiting()).message, /next free worker/);
});

test('a retry that is due long after a suspension ends waits for the retry schedule', () => {
  const suspended = { provider: provider('suspended', 60_000) };
  const limitOf = (dueInMs: number) => explainWait(waiting(suspended, { dueInMs })).limit;
  assert.equal(limitOf(70_000), 'suspension');
  assert.equal(limitOf(3600_000), 'retry');
});

test('mail waits for a worker when none runs, and for its domain until it is verified', () => {
  const { sender } = waiting();
  assert.equal(explainWait(waiting({ sender: { ...sender, hasWorkers: false } })).limit, 'service');
  const pending = { ...sender, domainStatus: 'pending' } as const;
  const wait = explainWait(waiting({ sender: pending }, { dueInMs: 60_000 }));
  assert.deepEqual([wait.limit, wait.until], ['sender', DUE_AT]);
});
