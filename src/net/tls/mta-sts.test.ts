/**
 * MTA-STS policies: parsing, cache and renewal, with a store and a DNS that the test controls.
 * test/journey/tls-mta-sts.test.ts sends mail under a policy.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuMs } from '../../../test/support/cpu.ts';
import { createAddressGuard } from '../ip-addresses.ts';
import type { DnsResult } from '../dns/resolver.ts';
import {
  parseStsPolicy,
  policyNames,
  readStsRecord,
  type StoredSts,
  StsCache,
  type StsPolicy,
} from './mta-sts.ts';
import { MINUTE_MS } from '../../lib/units.ts';

const lines = (...all: string[]): string => all.join('\r\n');

test('exactly one STSv1 record with one id counts', () => {
  const id = (...texts: string[]) => readStsRecord(texts);
  assert.deepEqual(id('v=STSv1; id=20160831085700Z;'), { kind: 'id', id: '20160831085700Z' });
  assert.deepEqual(id('v=STSv1;id=1', 'google-site-verification=x'), { kind: 'id', id: '1' });
  assert.deepEqual(id('v=STSv1; id=2; later=thing'), { kind: 'id', id: '2' });
  for (const texts of [
    [],
    ['v=STSv1; id=1', 'v=STSv1; id=2'],
    ['v=STSv1; id=1; id=1'],
    ['v=STSv1'],
    ['v=STSv1; id='],
    ['v=STSv1; id=a-b'],
    [`v=STSv1; id=${'1'.repeat(33)}`],
    ['v=STSv2; id=1'],
    ['id=1; v=STSv1'],
    ['v=STSv1; id=1; nonsense'],
    ['v=STSv1; id=1 2'],
    Array.from({ length: 5_000 }, () => 'v=STSv1; id=1'),
  ]) {
    assert.deepEqual(readStsRecord(texts), { kind: 'none' }, `${texts[0]}`);
  }
});

test('the policy in the RFC is parsed', () => {
  const body = lines(
    'version: STSv1',
    'mode: enforce',
    'mx: mail.example.com',
    'mx: *.Example.net',
    'max_age: 604800',
    'comment: not known here',
    '',
  );
  assert.deepEqual(parseStsPolicy(body), {
    policy: { mode: 'enforce', mx: ['mail.example.com', '*.example.net'], maxAgeS: 604_800 },
  });
  assert.deepEqual(parseStsPolicy(body.replaceAll('\r\n', '\n')), parseStsPolicy(body));
  assert.deepEqual(parseStsPolicy(body.replace('mode: e', 'Mode:E')), parseStsPolicy(body));
  assert.deepEqual(parseStsPolicy('version: STSv1\nmode: none\nmax_age: 86400\n'), {
    policy: { mode: 'none', mx: [], maxAgeS: 86_400 },
  });
});

test('the first of a repeated key counts, and max_age is capped at a year', () => {
  const parsed = parseStsPolicy(
    lines('version: STSv1', 'mode: testing', 'mode: none', 'mx: a.test', 'max_age: 9999999999'),
  );
  assert.deepEqual(parsed, { policy: { mode: 'testing', mx: ['a.test'], maxAgeS: 31_557_600 } });
});

test('an invalid policy counts as none', () => {
  const good = ['version: STSv1', 'mode: enforce', 'mx: mail.example.com', 'max_age: 86400'];
  const without = (key: string) => lines(...good.filter((line) => !line.startsWith(key)));
  for (const body of [
    '',
    '<!doctype html><title>Not found</title>',
    without('version'),
    without('mode'),
    without('mx'),
    without('max_age'),
    `${without('version')}\r\nversion: STSv2`,
    `${without('mode')}\r\nmode: Enforce!`,
    `${without('max_age')}\r\nmax_age: -1`,
    `${without('max_age')}\r\nmax_age: 1e9`,
    `${without('mx')}\r\nmx: *`,
    `${without('mx')}\r\nmx: a.*.example.com`,
    `${without('mx')}\r\nmx: mail_example com`,
    `${lines(...good)}\r\nnot a line`,
    `${lines(...good)}\r\n${'mx: a.test\r\n'.repeat(201)}`,
    '\0'.repeat(65_536),
    'a: '.repeat(20_000),
  ]) {
    assert.ok('problem' in parseStsPolicy(body), body.slice(0, 80));
  }
});

test('a wildcard matches one leftmost label', () => {
  const policy: StsPolicy = { mode: 'enforce', mx: ['mx.a.test', '*.b.test'], maxAgeS: 1 };
  const named = (host: string) => policyNames(policy, host);
  assert.ok(named('mx.a.test') && named('MX.A.test.') && named('one.b.test'));
  for (const host of [
    'mx2.a.test',
    'a.test',
    'b.test',
    'one.two.b.test',
    'oneb.test',
    'test',
    '',
  ]) {
    assert.ok(!named(host), host);
  }
});

test('a policy with lines of blanks is parsed in linear time', () => {
  // A pattern that searches for the last blank from each position took seconds for a policy of 64 KB.
  const policy = `version: STSv1\nmode: none${' '.repeat(64_000)}x\nmax_age: 86400\n`;
  const tookMs = cpuMs(() => assert.ok('problem' in parseStsPolicy(policy)));
  assert.ok(tookMs < 500, `${tookMs} ms`);
});

const policy: StsPolicy = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 86_400 };
const NOTHING: StoredSts = { cached: null, failedAgoMs: null };
const STORED: StoredSts = {
  cached: { id: '1', policy, ageMs: 0, remainingMs: 60 * MINUTE_MS },
  failedAgoMs: null,
};

/** Returns a cache over a store and a DNS that the test controls. No policy host can be reached. */
function cacheOver({ stored = NOTHING, txt = ['v=STSv1; id=1'] as string[] | null } = {}) {
  const state = { stored, txt, nowMs: 0, loads: 0, lookups: 0, failures: [] as string[] };
  const answer = (): DnsResult<string> =>
    state.txt === null
      ? { kind: 'error', message: 'SERVFAIL' }
      : { kind: 'records', records: state.txt, authenticated: false };
  const nothing = async (): Promise<DnsResult<string>> => ({ kind: 'nxdomain' });
  const cache = new StsCache({
    resolver: {
      txt: async () => {
        state.lookups++;
        return answer();
      },
      a: nothing,
      aaaa: nothing,
    },
    guard: createAddressGuard({ allowPrivate: false }),
    port: 443,
    world: { monotonicMs: () => state.nowMs },
    store: {
      load: async () => {
        state.loads++;
        return state.stored;
      },
      save: async () => {},
      saveFailure: async () => {
        state.stored = { ...state.stored, failedAgoMs: 0 };
      },
    },
    onFailure: (_, result) => void state.failures.push(result),
  });
  return { cache, state };
}

test('a result is cached for five minutes', async () => {
  const { cache, state } = cacheOver({ txt: [] });
  assert.equal(await cache.policyFor('a.test'), null);
  assert.equal(cache.policyFor('a.test'), null, 'no promise');
  state.nowMs = 5 * MINUTE_MS - 1;
  await cache.policyFor('a.test');
  assert.deepEqual([state.loads, state.lookups], [1, 1]);
  state.nowMs += 1;
  await cache.policyFor('a.test');
  assert.deepEqual([state.loads, state.lookups], [2, 2]);
});

test('concurrent look-ups share one query', async () => {
  const { cache, state } = cacheOver({ stored: STORED });
  const answers = await Promise.all([1, 2, 3].map(async () => cache.policyFor('a.test')));
  assert.deepEqual(answers, [policy, policy, policy]);
  assert.equal(state.lookups, 1);
});

test('a stored policy holds when DNS, the record or its host is unavailable', async () => {
  for (const txt of [null, [], ['v=STSv1; id=2']]) {
    const { cache, state } = cacheOver({ stored: STORED, txt });
    assert.deepEqual(await cache.policyFor('a.test'), policy);
    state.nowMs = 61 * MINUTE_MS;
    state.stored = NOTHING;
    assert.equal(await cache.policyFor('a.test'), null, 'until it expires');
  }
});

test('a policy expires on time, also between two look-ups', async () => {
  const remainingMs = MINUTE_MS;
  const { cache, state } = cacheOver({
    stored: { ...STORED, cached: { ...STORED.cached!, remainingMs } },
  });
  await cache.policyFor('a.test');
  state.nowMs = remainingMs - 1;
  assert.deepEqual(cache.policyFor('a.test'), policy);
  state.nowMs = remainingMs;
  assert.equal(cache.policyFor('a.test'), null);
});

test('a failed fetch is not repeated for five minutes, and is reported once', async () => {
  const { cache, state } = cacheOver();
  await cache.policyFor('a.test');
  assert.deepEqual(state.failures, ['sts-policy-fetch-error']);
  state.nowMs = 6 * MINUTE_MS;
  state.stored = { ...state.stored, failedAgoMs: 5 * MINUTE_MS };
  await cache.policyFor('a.test');
  assert.equal(state.failures.length, 1);
  state.nowMs = 12 * MINUTE_MS;
  state.stored = { ...state.stored, failedAgoMs: 6 * MINUTE_MS };
  await cache.policyFor('a.test');
  assert.equal(state.failures.length, 2);
});

test('a policy of mode none is cached and requires nothing', async () => {
  const cached = { ...STORED.cached!, policy: { ...policy, mode: 'none' as const, mx: [] } };
  const { cache } = cacheOver({ stored: { ...STORED, cached } });
  assert.equal(await cache.policyFor('a.test'), null);
});

test('after a TLS failure DNS is queried again, at most once a minute', async () => {
  const { cache, state } = cacheOver({ stored: STORED });
  await cache.policyFor('a.test');
  await cache.recheck('a.test');
  await cache.recheck('a.test');
  assert.equal(state.lookups, 2);
  state.nowMs = MINUTE_MS;
  await cache.recheck('a.test');
  assert.equal(state.lookups, 3);
});

test('a policy that is a day old is fetched again in the background', async () => {
  const cached = { ...STORED.cached!, ageMs: 25 * 60 * MINUTE_MS };
  const { cache, state } = cacheOver({ stored: { ...STORED, cached } });
  assert.deepEqual(await cache.policyFor('a.test'), policy);
  await cache.whenIdle();
  assert.deepEqual(state.failures, ['sts-policy-fetch-error']);
});
