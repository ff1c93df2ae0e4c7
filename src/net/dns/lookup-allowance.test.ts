/**
 * Shows how many look-ups one request and one project may cause. test/journey/dry-run.test.ts shows it at a service.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BoundedLookup, LookupAllowance } from './lookup-allowance.ts';

const SCOPE = { projectId: 'p', environment: 'live' } as const;
const OTHER = { projectId: 'q', environment: 'live' } as const;

function allowance(bounds: ConstructorParameters<typeof LookupAllowance>[1]) {
  const clock = { nowMs: 5 };
  return { clock, allowance: new LookupAllowance({ monotonicMs: () => clock.nowMs }, bounds) };
}

let domains = 0;
const known = async (look: BoundedLookup) =>
  (await look(`${(domains += 1)}.test`, () => 'x')).kind === 'known';
const never = () => new Promise<never>(() => {});

test('a request looks up a few domains, and reports the others as not looked up', async () => {
  const look = allowance({ perRequestMax: 2 }).allowance.forRequest(SCOPE);
  assert.deepEqual(await look('a.test', () => 'a'), { kind: 'known', value: 'a' });
  assert.ok(await known(look));
  let asked = 0;
  const refused = await look('b.test', () => (asked += 1));
  assert.equal(refused.kind, 'unknown');
  assert.equal(asked, 0);
});

test('a project may look up a number of domains in a minute, which does not affect another one', async () => {
  const { clock, allowance: bounded } = allowance({ perMinuteMax: 2 });
  const ask = () => known(bounded.forRequest(SCOPE));
  assert.deepEqual([await ask(), await ask(), await ask()], [true, true, false]);
  assert.ok(await known(bounded.forRequest(OTHER)));
  clock.nowMs += 60_000;
  const again = async () => (await bounded.forRequest(SCOPE)('same.test', () => 'x')).kind;
  assert.deepEqual([await again(), await again(), await again()], ['known', 'known', 'known']);
  assert.deepEqual([await ask(), await ask()], [true, false]);
});

test('with silent name servers the result is unknown in time, and only their own project is affected', async () => {
  const { clock, allowance: bounded } = allowance({ requestTimeoutMs: 20, atOnceMax: 1 });
  const silent = await bounded.forRequest(SCOPE)('a.test', never);
  assert.deepEqual(silent, { kind: 'unknown', reason: 'DNS did not respond within 0.02 s' });
  clock.nowMs += 60_000;
  const next = await bounded.forRequest(SCOPE)('a.test', () => 'x');
  assert.match(next.kind === 'unknown' ? next.reason : '', /^1 look-ups of this project wait/);
  assert.ok(await known(bounded.forRequest(OTHER)));
});

test('a look-up that has ended permits another one, even if it failed', async () => {
  const bounded = allowance({ atOnceMax: 1 }).allowance;
  const failing = () => Promise.reject(new Error('no database'));
  await assert.rejects(bounded.forRequest(SCOPE)('a.test', failing), /no database/);
  assert.ok(await known(bounded.forRequest(SCOPE)));
});
