/**
 * Shows what a worker remembers about TLS of mail servers, and the counts that it stores. test/journey/tls.test.ts
 * shows which mail is then sent in the clear.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TlsCount } from './transport-security-store.ts';
import { TlsCounters } from './tls-counters.ts';
import { TlsMemory } from './tls-memory.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/units.ts';

const HOST = 'mx.a.test';

function atTime() {
  const clock = { nowMs: 0 };
  return { clock, memory: new TlsMemory({ monotonicMs: () => clock.nowMs }) };
}

test('a host that needs a small ClientHello is remembered for three days', () => {
  const { clock, memory } = atTime();
  assert.equal(memory.needsReduced(HOST), false);
  memory.recordSuccess(HOST, { reduced: true });
  assert.deepEqual([memory.needsReduced(HOST), memory.needsReduced('mx.b.test')], [true, false]);
  clock.nowMs = 3 * DAY_MS - 1;
  assert.equal(memory.needsReduced(HOST), true);
  clock.nowMs = 3 * DAY_MS;
  assert.equal(memory.needsReduced(HOST), false);
});

test('a failed handshake is remembered for ten minutes where TLS never worked', () => {
  const { clock, memory } = atTime();
  memory.recordFailure(HOST);
  assert.deepEqual([memory.isBroken(HOST), memory.isBroken('mx.b.test')], [true, false]);
  clock.nowMs = 10 * MINUTE_MS;
  assert.equal(memory.isBroken(HOST), false);
});

test('TLS is required for three days after it worked', () => {
  const { clock, memory } = atTime();
  memory.recordSuccess(HOST, { reduced: false });
  for (let day = 0; day < 6; day += 1) {
    memory.recordFailure(HOST);
    assert.deepEqual([memory.isBroken(HOST), memory.expectsTls(HOST)], [false, true]);
    clock.nowMs += HOUR_MS - 1;
    assert.equal(memory.expectsTls(HOST), true, 'it has failed for less than an hour');
    memory.recordSuccess(HOST, { reduced: false });
    clock.nowMs += DAY_MS;
  }
  clock.nowMs += 2 * DAY_MS;
  assert.equal(memory.expectsTls(HOST), false, 'TLS last worked three days ago');
});

test('after TLS has failed for an hour, the server gets plain text until TLS works again', () => {
  const { clock, memory } = atTime();
  memory.recordSuccess(HOST, { reduced: false });
  memory.recordFailure(HOST);
  clock.nowMs = HOUR_MS;
  assert.deepEqual([memory.expectsTls(HOST), memory.isBroken(HOST)], [false, false]);
  memory.recordFailure(HOST);
  assert.equal(memory.isBroken(HOST), true);
  memory.recordSuccess(HOST, { reduced: false });
  assert.deepEqual([memory.expectsTls(HOST), memory.isBroken(HOST)], [true, false]);
});

test('at most 10,000 hosts are remembered, and the oldest are dropped', () => {
  const { memory } = atTime();
  for (let index = 0; index <= 10_000; index++) memory.recordFailure(`${index}.test`);
  assert.deepEqual([memory.isBroken('0.test'), memory.isBroken('10000.test')], [false, true]);
});

const kind = (domain: string, result = 'success') => ({ domain, policy: 'sts', result }) as const;

/** Counters whose writes fail while `isAway` is set. */
function countersOver(): { counters: TlsCounters; stored: TlsCount[][]; isAway: boolean } {
  const over = { stored: [] as TlsCount[][], isAway: false };
  const counters = new TlsCounters(async (counts) => {
    if (over.isAway) throw new Error('away');
    over.stored.push(counts.map((count) => ({ ...count })));
  });
  return Object.assign(over, { counters });
}

test('sessions of one kind are stored once, as one row', async () => {
  const over = countersOver();
  over.counters.add(kind('a.test'));
  over.counters.add(kind('a.test'));
  over.counters.add(kind('a.test', 'certificate-expired'));
  await over.counters.flush();
  await over.counters.flush();
  assert.deepEqual(over.stored, [
    [
      { ...kind('a.test'), sessions: 2 },
      { ...kind('a.test', 'certificate-expired'), sessions: 1 },
    ],
  ]);
});

test('counts that could not be stored are part of the next write', async () => {
  const over = countersOver();
  over.isAway = true;
  over.counters.add(kind('a.test'));
  await over.counters.flush();
  over.isAway = false;
  over.counters.add(kind('a.test'));
  await over.counters.flush();
  assert.deepEqual(over.stored, [[{ ...kind('a.test'), sessions: 2 }]]);
});

test('2,000 kinds are stored at once, and memory stays bounded while writes fail', async () => {
  const over = countersOver();
  for (let index = 0; index < 2_000; index++) over.counters.add(kind(`${index}.test`));
  await over.counters.flush();
  assert.equal(over.stored.flat().length, 2_000);
  over.isAway = true;
  for (let index = 0; index < 30_000; index++) over.counters.add(kind(`${index}.test`));
  await over.counters.flush();
  over.isAway = false;
  await over.counters.flush();
  assert.equal(over.stored.flat().length, 2_000 + 20_000);
});
