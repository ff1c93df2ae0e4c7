import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TlsCount } from '../store/tls-results.ts';
import { TlsCounters } from './tls-counters.ts';

const kind = (domain: string, result = 'success') => ({ domain, policy: 'sts', result }) as const;

/** Counters whose database is away until it is let. */
function countersOver(): { counters: TlsCounters; written: TlsCount[][]; isAway: boolean } {
  const over = { written: [] as TlsCount[][], isAway: false };
  const counters = new TlsCounters(async (counts) => {
    if (over.isAway) throw new Error('away');
    over.written.push(counts.map((count) => ({ ...count })));
  });
  return Object.assign(over, { counters });
}

test('sessions of one kind are one row, and what was written is not written again', async () => {
  const over = countersOver();
  over.counters.add(kind('a.test'));
  over.counters.add(kind('a.test'));
  over.counters.add(kind('a.test', 'certificate-expired'));
  await over.counters.flush();
  await over.counters.flush();
  assert.deepEqual(over.written, [
    [
      { ...kind('a.test'), sessions: 2 },
      { ...kind('a.test', 'certificate-expired'), sessions: 1 },
    ],
  ]);
});

test('what could not be written is added to the next time', async () => {
  const over = countersOver();
  over.isAway = true;
  over.counters.add(kind('a.test'));
  await over.counters.flush();
  over.isAway = false;
  over.counters.add(kind('a.test'));
  await over.counters.flush();
  assert.deepEqual(over.written, [[{ ...kind('a.test'), sessions: 2 }]]);
});

test('many kinds are written at once, and while nothing can be written memory stays bounded', async () => {
  const over = countersOver();
  for (let index = 0; index < 2_000; index++) over.counters.add(kind(`${index}.test`));
  await over.counters.flush();
  assert.equal(over.written.flat().length, 2_000);
  over.isAway = true;
  for (let index = 0; index < 30_000; index++) over.counters.add(kind(`${index}.test`));
  await over.counters.flush();
  over.isAway = false;
  await over.counters.flush();
  assert.equal(over.written.flat().length, 2_000 + 20_000);
});
