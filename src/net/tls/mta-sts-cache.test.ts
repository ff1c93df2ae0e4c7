import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAddressGuard } from '../http/address-guard.ts';
import type { DnsAnswer } from '../dns/resolver.ts';
import type { StsPolicy } from './mta-sts.ts';
import { StsCache, type StoredSts } from './mta-sts-cache.ts';

const MINUTE_MS = 60_000;
const policy: StsPolicy = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 86_400 };
const NOTHING: StoredSts = { known: null, failedAgoMs: null };
const STORED: StoredSts = {
  known: { id: '1', policy, ageMs: 0, remainingMs: 60 * MINUTE_MS },
  failedAgoMs: null,
};

/** A cache over a store and a DNS that answer as they are told; no policy host can be reached. */
function cacheOver({ stored = NOTHING, txt = ['v=STSv1; id=1'] as string[] | null } = {}) {
  const told = { stored, txt, nowMs: 0, loads: 0, lookups: 0, failures: [] as string[] };
  const answer = (): DnsAnswer<string> =>
    told.txt === null
      ? { kind: 'error', message: 'SERVFAIL' }
      : { kind: 'records', records: told.txt, authenticated: false };
  const nothing = async (): Promise<DnsAnswer<string>> => ({ kind: 'nxdomain' });
  const cache = new StsCache({
    resolver: {
      txt: async () => {
        told.lookups++;
        return answer();
      },
      a: nothing,
      aaaa: nothing,
    },
    guard: createAddressGuard({ allowPrivate: false }),
    port: 443,
    world: { monotonicMs: () => told.nowMs },
    store: {
      load: async () => {
        told.loads++;
        return told.stored;
      },
      save: async () => {},
      saveFailure: async () => {
        told.stored = { ...told.stored, failedAgoMs: 0 };
      },
    },
    onFailure: (_, result) => void told.failures.push(result),
  });
  return { cache, told };
}

test('after the first look an answer costs neither a query nor a wait, for five minutes', async () => {
  const { cache, told } = cacheOver({ txt: [] });
  assert.equal(await cache.of('a.test'), null);
  assert.equal(cache.of('a.test'), null, 'no promise');
  told.nowMs = 5 * MINUTE_MS - 1;
  await cache.of('a.test');
  assert.deepEqual([told.loads, told.lookups], [1, 1]);
  told.nowMs += 1;
  await cache.of('a.test');
  assert.deepEqual([told.loads, told.lookups], [2, 2]);
});

test('emails that ask at the same time share one look', async () => {
  const { cache, told } = cacheOver({ stored: STORED });
  const answers = await Promise.all([1, 2, 3].map(async () => cache.of('a.test')));
  assert.deepEqual(answers, [policy, policy, policy]);
  assert.equal(told.lookups, 1);
});

test('a stored policy holds when DNS is away, the record is gone or its host is away', async () => {
  for (const txt of [null, [], ['v=STSv1; id=2']]) {
    const { cache, told } = cacheOver({ stored: STORED, txt });
    assert.deepEqual(await cache.of('a.test'), policy);
    told.nowMs = 61 * MINUTE_MS;
    told.stored = NOTHING;
    assert.equal(await cache.of('a.test'), null, 'until it expires');
  }
});

test('a policy ends on time, also between two looks', async () => {
  const remainingMs = MINUTE_MS;
  const { cache, told } = cacheOver({
    stored: { ...STORED, known: { ...STORED.known!, remainingMs } },
  });
  await cache.of('a.test');
  told.nowMs = remainingMs - 1;
  assert.deepEqual(cache.of('a.test'), policy);
  told.nowMs = remainingMs;
  assert.equal(cache.of('a.test'), null);
});

test('a failed fetch is not tried again for five minutes, and is told once', async () => {
  const { cache, told } = cacheOver();
  await cache.of('a.test');
  assert.deepEqual(told.failures, ['sts-policy-fetch-error']);
  told.nowMs = 6 * MINUTE_MS;
  told.stored = { ...told.stored, failedAgoMs: 5 * MINUTE_MS };
  await cache.of('a.test');
  assert.equal(told.failures.length, 1);
  told.nowMs = 12 * MINUTE_MS;
  told.stored = { ...told.stored, failedAgoMs: 6 * MINUTE_MS };
  await cache.of('a.test');
  assert.equal(told.failures.length, 2);
});

test('a policy of mode none is remembered and holds nobody to anything', async () => {
  const known = { ...STORED.known!, policy: { ...policy, mode: 'none' as const, mx: [] } };
  const { cache } = cacheOver({ stored: { ...STORED, known } });
  assert.equal(await cache.of('a.test'), null);
});

test('a check because of a failure asks the DNS anew, once a minute', async () => {
  const { cache, told } = cacheOver({ stored: STORED });
  await cache.of('a.test');
  await cache.recheck('a.test');
  await cache.recheck('a.test');
  assert.equal(told.lookups, 2);
  told.nowMs = MINUTE_MS;
  await cache.recheck('a.test');
  assert.equal(told.lookups, 3);
});

test('a policy that is a day old is fetched again without anybody waiting', async () => {
  const known = { ...STORED.known!, ageMs: 25 * 60 * MINUTE_MS };
  const { cache, told } = cacheOver({ stored: { ...STORED, known } });
  assert.deepEqual(await cache.of('a.test'), policy);
  await cache.settled();
  assert.deepEqual(told.failures, ['sts-policy-fetch-error']);
});
