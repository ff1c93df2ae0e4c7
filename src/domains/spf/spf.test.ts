/** SPF records, each with its result for one address, as a table; and which of our hosts a record covers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DnsResult } from '../../net/dns/resolver.ts';
import { checkHost, type SpfLookups } from './spf.ts';
import { findSpfCoverage } from './coverage.ts';

type Zone = Record<
  string,
  { TXT?: string[]; A?: string[]; AAAA?: string[]; MX?: string[]; PTR?: string[] } | 'down'
>;

const ZONE: Zone = {
  'us.test': { TXT: ['v=spf1 ip4:192.0.2.7 ip6:2001:db8::/32 -all'] },
  'far.test': { TXT: ['hello', 'v=spf1 include:us.test ~all'] },
  'other.test': { TXT: ['v=spf1 ip4:203.0.113.1 -all'] },
  'soft.test': { TXT: ['v=spf1 ~all'] },
  'none.test': { TXT: ['no record'] },
  'two.test': { TXT: ['v=spf1 -all', 'v=spf1 ~all'] },
  'typo.test': { TXT: ['v=spf1 ip4:192.0.2.7 ipv4:192.0.2.8 -all'] },
  'long.test': { TXT: [`v=spf1 ${'ip4:203.0.113.1 '.repeat(1_000)}`] },
  'self.test': { TXT: ['v=spf1 include:self.test -all'] },
  'a.loop.test': { TXT: ['v=spf1 redirect=b.loop.test'] },
  'b.loop.test': { TXT: ['v=spf1 include:a.loop.test -all'] },
  'down.test': 'down',
  'mx.us.test': { A: ['192.0.2.7'], AAAA: ['2001:db8::7'] },
  'mail.test': { MX: ['mx.nobody.test', 'mx.us.test'], A: ['198.51.100.9'] },
  'many.test': { MX: Array.from({ length: 11 }, (_, at) => `m${at}.test`) },
  'near.test': { A: ['192.0.2.200'] },
  '192.0.2.7': { PTR: ['elsewhere.test', 'mx.us.test'] },
  '7.2.0.192.in-addr.allow.test': { A: ['127.0.0.2'] },
  '192.0.2.7.send.acme.test.allow.test': { A: ['127.0.0.2'] },
  'acme.test.allow.test': { A: ['127.0.0.2'] },
  'mx-us-test.allow.test': { A: ['127.0.0.2'] },
  ...Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => [
      `c${at}.test`,
      { TXT: [`v=spf1 include:c${at + 1}.test ?all`] },
    ]),
  ),
  'c12.test': { TXT: ['v=spf1 ip4:192.0.2.7'] },
  'c3.end.test': { TXT: ['v=spf1 redirect=us.test'] },
};

const asked: string[] = [];

const LOOKUPS: SpfLookups = {
  a: answering('A'),
  aaaa: answering('AAAA'),
  txt: answering('TXT'),
  ptr: answering('PTR'),
  mx: async (name) => {
    const answer = await answering('MX')(name);
    if (answer.kind !== 'records') return answer;
    const records = answer.records.map((exchange) => ({ preference: 10, exchange }));
    return { ...answer, records };
  },
};

function answering(type: 'A' | 'AAAA' | 'TXT' | 'PTR' | 'MX') {
  return async (name: string): Promise<DnsResult<string>> => {
    asked.push(name);
    const node = ZONE[name];
    if (node === 'down') return { kind: 'error', message: `the ${type} look-up of ${name} failed` };
    if (node === undefined) return { kind: 'nxdomain' };
    const records = node[type] ?? [];
    return records.length > 0
      ? { kind: 'records', records, authenticated: false }
      : { kind: 'nodata' };
  };
}

async function result(record: string, ip = '192.0.2.7'): Promise<string> {
  const client = { name: null, ip, helo: 'mx.us.test' };
  const at = { domain: 'send.acme.test', texts: [record], lookups: LOOKUPS };
  const found = await checkHost(client, at);
  return 'why' in found ? `${found.result}: ${found.why}` : found.result;
}

/** Record → the result for 192.0.2.7, or the beginning of it. */
const RESULTS: Record<string, Record<string, string>> = {
  'include and redirect are followed': {
    'v=spf1 include:us.test -all': 'pass',
    'v=spf1 include:far.test -all': 'pass',
    'V=SPF1 INCLUDE:US.TEST. -ALL': 'pass',
    'v=spf1 redirect=us.test': 'pass',
    'v=spf1 redirect=far.test': 'pass',
    'v=spf1 include:c3.end.test': 'pass',
    'v=spf1 include:other.test redirect=us.test': 'pass',
    'v=spf1 redirect=us.test include:other.test': 'pass',
    'v=spf1 include:%{d2}.x include:us.test': 'permerror: %{d2}.x has no SPF record',
  },
  'the qualifier, the order and all decide as for a receiver': {
    'v=spf1 include:other.test include:soft.test ?all': 'neutral',
    'v=spf1 include:other.test ~all': 'softfail',
    'v=spf1 -include:us.test +all': 'fail',
    'v=spf1 ?include:us.test -all': 'neutral',
    'v=spf1 -ip4:192.0.2.7 include:us.test': 'fail',
    'v=spf1 -all include:us.test': 'fail',
    'v=spf1 ~all redirect=us.test': 'softfail',
    'v=spf1 redirect=us.test ~all': 'softfail',
    'v=spf1 include:other.test': 'neutral',
    'v=spf1 redirect=other.test': 'fail',
    'v=spf1': 'neutral',
    'v=spf1 +all': 'pass',
    'v=spf10 +all': 'none',
  },
  'addresses, names, exchangers and reverse names are looked up': {
    'v=spf1 a:mx.us.test -all': 'pass',
    'v=spf1 a:near.test -all': 'fail',
    'v=spf1 a:near.test/24 -all': 'pass',
    'v=spf1 a:near.test/24//64 -all': 'pass',
    'v=spf1 mx:mail.test -all': 'pass',
    'v=spf1 mx:many.test -all': 'permerror: many.test has more than 10 MX records',
    'v=spf1 ptr:us.test -all': 'pass',
    'v=spf1 exists:mx.us.test -all': 'pass',
    'v=spf1 exists:nobody.test -all': 'fail',
    'v=spf1 ip4:192.0.2.0/24 -all': 'pass',
    'v=spf1 ip4:192.0.2.8/31 -all': 'fail',
  },
  'macros are expanded': {
    'v=spf1 exists:%{ir}.%{v}.allow.test -all': 'pass',
    'v=spf1 exists:%{i}.%{d}.allow.test -all': 'pass',
    'v=spf1 exists:%{O2}.allow.test -all': 'pass',
    'v=spf1 exists:%{h.}.allow.test -all': 'fail',
    'v=spf1 include:%{l}.nobody.test -all': 'permerror: %{l}.nobody.test has no SPF record',
    'v=spf1 a:%{h} -all': 'pass',
    'v=spf1 redirect=%{h}': 'permerror: %{h} has no SPF record',
  },
  'errors are those of a receiver': {
    'v=spf1 include:none.test include:us.test': 'permerror: none.test has no SPF record',
    'v=spf1 include:nobody.test ip4:192.0.2.7': 'permerror: nobody.test has no SPF record',
    'v=spf1 redirect=none.test': 'permerror: none.test has no SPF record',
    'v=spf1 include:two.test -all': 'permerror: two.test has 2 SPF records',
    'v=spf1 include:typo.test -all':
      'permerror: the record of typo.test has a mistake, "ipv4:192.0.2.8"',
    'v=spf1 include:long.test -all':
      'permerror: the record of long.test has more than 10,000 characters',
    'v=spf1 include:self.test -all': 'permerror: self.test includes itself',
    'v=spf1 include:send.acme.test -all': 'permerror: send.acme.test includes itself',
    'v=spf1 include:a.loop.test -all': 'permerror: a.loop.test includes itself',
    'v=spf1 include:down.test -all': 'temperror: the TXT look-up of down.test failed',
    'v=spf1 a:down.test -all': 'temperror: the A look-up of down.test failed',
    'v=spf1 ip4:192.0.2.7 include:down.test': 'pass',
    'v=spf1 include:c0.test -all': 'permerror: it needs more than 10 DNS look-ups',
    'v=spf1 include:c3.test -all': 'pass',
    'v=spf1 include:c2.test -all': 'permerror: it needs more than 10 DNS look-ups',
    'v=spf1 a:x.test a:y.test include:us.test': 'pass',
    'v=spf1 a:x.test mx:y.test exists:z.test include:us.test':
      'permerror: more than 2 of the names in it do not exist',
  },
};

for (const [rule, records] of Object.entries(RESULTS)) {
  test(`SPF: ${rule}`, async () => {
    for (const [record, expected] of Object.entries(records)) {
      const found = await result(record);
      assert.ok(found.startsWith(expected), `${record}: ${found}`);
    }
  });
}

test('an address of IPv6 is compared with records of its kind', async () => {
  const ip = '2001:db8::7';
  assert.equal(await result('v=spf1 include:us.test -all', ip), 'pass');
  assert.equal(await result('v=spf1 a:mx.us.test -all', ip), 'pass');
  assert.equal(await result('v=spf1 a:near.test/0 -all', ip), 'fail');
  assert.equal(await result('v=spf1 ip4:0.0.0.0/0 -all', ip), 'fail');
  assert.equal(await result('v=spf1 ip6:2001:db8::/126 -all', ip), 'fail');
});

test('one mistake anywhere in a record is an error, and nothing is looked up', async () => {
  asked.length = 0;
  for (const term of [
    'ipv4:192.0.2.8',
    'ip4:192.0.2',
    'ip4:192.0.2.8/33',
    'ip4:2001:db8::1',
    'ip6:192.0.2.8',
    'ip4',
    'include',
    'include:',
    'include:us.test/24',
    'all:x',
    'allx',
    'exists',
    'a:',
    'a/33',
    'mx//129',
    'redirect=',
    'redirect=us.test redirect=us.test',
    '-redirect=us.test',
    '~al',
    'ip4:192.0.2.7/032',
    'a:test',
    'a:192.0.2.7',
    'a:us.test:25',
    'exists:%{x}.test',
    'exists:%{d0}.test',
    'exists:50%.test',
    'exp=-all',
    'unknown=%',
    '"',
  ]) {
    const found = await result(`v=spf1 ${term} ip4:192.0.2.7 include:us.test`);
    assert.match(found, /^permerror: the record of send\.acme\.test has a mistake, "/, term);
  }
  assert.deepEqual(asked, []);
  assert.equal(await result('v=spf1 ip4:192.0.2.7 exp=x.test unknown=y -all'), 'pass');
});

test('a host known only by its name matches an a: with that name', async () => {
  const client = { name: 'mail.acme.test', ip: null, helo: 'mail.acme.test' };
  for (const [text, expected] of [
    ['v=spf1 a:mail.acme.test. -all', 'pass'],
    ['v=spf1 include:named.test -all', 'pass'],
    ['v=spf1 a:other.test -all', 'fail'],
  ] as const) {
    ZONE['named.test'] = { TXT: ['v=spf1 a:MAIL.acme.test ?all'] };
    const at = { domain: 'send.acme.test', texts: [text], lookups: LOOKUPS };
    assert.equal((await checkHost(client, at)).result, expected, text);
  }
});

test('the record of a host without a full name may name it before "all"', async () => {
  const installation = { returnPathHost: 'Build7', hosts: [{ name: 'Build7', sourceIps: [] }] };
  for (const [text, passes, error] of [
    ['v=spf1 a:build7 ~all', true, false],
    ['v=spf1 +A:Build7 include:other.test -all', true, false],
    ['v=spf1 ~all a:build7', false, false],
    ['v=spf1 -a:build7 ~all', false, true],
    ['v=spf1 a:build8 ~all', false, true],
  ] as const) {
    const found = { domain: 'send.acme.test', texts: [text], installation, lookups: LOOKUPS };
    const coverage = await findSpfCoverage(['a:Build7'], found);
    assert.deepEqual([coverage.passes('a:Build7'), coverage.error !== null], [passes, error], text);
  }
});

test('a host known by its name passes by its addresses, regardless of the terms that follow', async () => {
  const installation = {
    returnPathHost: 'mx.us.test',
    hosts: [{ name: 'mx.us.test', sourceIps: [] }],
  };
  for (const [text, passes] of [
    ['v=spf1 ip4:192.0.2.7 ip6:2001:db8::7 include:nobody.test -all', true],
    ['v=spf1 include:us.test include:c0.test -all', true],
    ['v=spf1 include:us.test include:down.test -all', true],
    ['v=spf1 include:nobody.test ip4:192.0.2.7 ip6:2001:db8::7 -all', false],
    ['v=spf1 include:down.test include:us.test -all', false],
  ] as const) {
    const found = { domain: 'send.acme.test', texts: [text], installation, lookups: LOOKUPS };
    const coverage = await findSpfCoverage(['a:mx.us.test'], found);
    assert.deepEqual([coverage.passes('a:mx.us.test'), coverage.error === null], [passes, passes]);
  }
});

test('evaluating a record for many hosts does not block other work', async () => {
  const sourceIps = Array.from({ length: 20 }, (_, at) => `203.0.113.${at}`);
  const installation = { returnPathHost: 'mx.us.test', hosts: [{ name: 'mx.us.test', sourceIps }] };
  const texts = ['v=spf1 include:far.test -all'];
  let turns = 0;
  let next = setImmediate(function takeTurn() {
    turns += 1;
    next = setImmediate(takeTurn);
  });
  await findSpfCoverage(
    sourceIps.map((ip) => `ip4:${ip}`),
    { domain: 'send.acme.test', texts, installation, lookups: LOOKUPS },
  );
  clearImmediate(next);
  assert.ok(turns >= sourceIps.length, `${turns} turns`);
});
