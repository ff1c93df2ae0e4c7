/** Look-ups over real packets: servers that fail, lie, are silent or truncate. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeDns, type FakeFailure } from '../../../test/support/fake-dns.ts';
import { createResolver, reverseName, type Resolver } from './resolver.ts';
import { parseServer } from './dns-query.ts';
import { HOUR_MS } from '../../lib/units.ts';

/** Creates a resolver without a cache, and with short times if a test waits for them. */
function resolverFor(
  servers: readonly string[],
  options: Partial<Parameters<typeof createResolver>[0]> = {},
): Resolver & Disposable {
  const resolver = createResolver({
    servers,
    world: { monotonicMs: () => performance.now() },
    cache: { minTtlMs: 0, maxTtlMs: 0, negativeTtlMs: 0, staleMs: 0 },
    ...options,
  });
  return { ...resolver, [Symbol.dispose]: () => resolver.close() };
}

/** A clock that the test sets. */
function handClock(): { now: number; monotonicMs: () => number } {
  const clock = { now: 1_000_000, monotonicMs: () => clock.now };
  return clock;
}

test('every record type is read from real packets', async () => {
  await using dns = await startFakeDns({
    'acme.test': {
      A: ['192.0.2.1', '192.0.2.2'],
      AAAA: ['2001:db8::1'],
      MX: ['20 B.acme.test', '10 a.acme.test'],
      TXT: ['v=spf1 -all', ['two ', 'strings']],
    },
    'www.acme.test': { CNAME: ['acme.test'] },
    '1.2.0.192.in-addr.arpa': { PTR: ['mail.acme.test'] },
  });
  using resolver = resolverFor([dns.server]);
  const records = async (lookup: Promise<{ kind: string }>) =>
    (await lookup) as { kind: string; records?: unknown };
  assert.deepEqual((await records(resolver.a('acme.test'))).records, ['192.0.2.1', '192.0.2.2']);
  assert.deepEqual((await records(resolver.aaaa('acme.test'))).records, ['2001:db8::1']);
  assert.deepEqual((await records(resolver.mx('ACME.test.'))).records, [
    { preference: 10, exchange: 'a.acme.test' },
    { preference: 20, exchange: 'b.acme.test' },
  ]);
  assert.deepEqual((await records(resolver.txt('acme.test'))).records, [
    'v=spf1 -all',
    'two strings',
  ]);
  assert.deepEqual((await records(resolver.cname('www.acme.test'))).records, ['acme.test']);
  assert.deepEqual((await records(resolver.ptr('192.0.2.1'))).records, ['mail.acme.test']);
});

test('a name without the record and a name that does not exist are different answers', async () => {
  await using dns = await startFakeDns({ 'mail.acme.test': { A: ['192.0.2.1'] } });
  using resolver = resolverFor([dns.server]);
  assert.deepEqual(await resolver.mx('mail.acme.test'), { kind: 'nodata' });
  assert.deepEqual(await resolver.a('acme.test'), { kind: 'nodata' }, 'an empty name in between');
  assert.deepEqual(await resolver.a('nowhere.test'), { kind: 'nxdomain' });
});

test('a name that DNS cannot express does not exist, without a query', async () => {
  await using dns = await startFakeDns();
  using resolver = resolverFor([dns.server]);
  for (const name of [
    '',
    '.',
    'a..b',
    '.a',
    `${'x'.repeat(64)}.test`,
    'x.'.repeat(130),
    'ü.test',
  ]) {
    assert.deepEqual(await resolver.mx(name), { kind: 'nxdomain' }, name);
  }
  assert.equal(dns.queries.length, 0);
});

test('CNAMEs are followed, within one message and from server to server', async () => {
  await using dns = await startFakeDns({
    'one.test': { CNAME: ['two.test'] },
    'two.test': { CNAME: ['Three.test'] },
    'three.test': { A: ['192.0.2.3'] },
    'astray.test': { CNAME: ['nowhere.test'] },
    'empty.test': { CNAME: ['three.test'] },
  });
  using resolver = resolverFor([dns.server]);
  const answer = await resolver.a('one.test');
  assert.deepEqual(answer, {
    kind: 'records',
    records: ['192.0.2.3'],
    authenticated: false,
    canonicalName: 'three.test',
  });
  assert.equal(dns.queries.length, 1);
  assert.deepEqual(await resolver.a('astray.test'), { kind: 'nxdomain' });
  assert.deepEqual(await resolver.mx('empty.test'), { kind: 'nodata' });
});

test('a CNAME loop ends as an error', async () => {
  await using dns = await startFakeDns({
    'a.test': { CNAME: ['b.test'] },
    'b.test': { CNAME: ['a.test'] },
  });
  using resolver = resolverFor([dns.server]);
  const answer = await resolver.a('a.test');
  assert.equal(answer.kind, 'error');
  assert.match(answer.kind === 'error' ? answer.message : '', /loop or more than 8 CNAME/);
});

test('eight CNAMEs are followed, nine are not', async () => {
  await using dns = await startFakeDns({ 'c0.test': { A: ['192.0.2.1'] } });
  for (let hop = 1; hop <= 9; hop++) dns.set(`c${hop}.test`, 'CNAME', [`c${hop - 1}.test`]);
  using resolver = resolverFor([dns.server]);
  assert.equal((await resolver.a('c8.test')).kind, 'records');
  assert.equal((await resolver.a('c9.test')).kind, 'error');
});

test('an answer too large for a datagram comes over TCP', async () => {
  const long = 'x'.repeat(3_000);
  await using dns = await startFakeDns({ 'big.test': { TXT: [long] } });
  using resolver = resolverFor([dns.server]);
  const answer = await resolver.txt('big.test');
  assert.deepEqual(answer.kind === 'records' && answer.records, [long]);
  assert.deepEqual(
    dns.queries.map((query) => query.transport),
    ['udp', 'tcp'],
  );
});

const UNANSWERED: readonly [FakeFailure, RegExp][] = [
  ['servfail', /SERVFAIL/],
  ['refused', /REFUSED/],
  ['formerr', /FORMERR/],
  ['garbage', /malformed/],
  ['referral', /referral/],
  ['timeout', /no response in time/],
  ['wrong_id', /no response in time/],
  ['wrong_question', /no response in time/],
  ['truncated_only', /wrong response over TCP/],
];

for (const [failure, said] of UNANSWERED) {
  test(`a server that fails with ${failure} is an error, and the next server is asked`, async () => {
    await using broken = await startFakeDns();
    await using healthy = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } });
    broken.setFailure('*', failure);
    using alone = resolverFor([broken.server], { queryTimeoutMs: 150 });
    const answer = await alone.a('acme.test');
    assert.match(answer.kind === 'error' ? answer.message : '', said);
    using both = resolverFor([broken.server, healthy.server], { queryTimeoutMs: 150 });
    assert.equal((await both.a('acme.test')).kind, 'records');
  });
}

test('a forged reply before the true one is ignored', async () => {
  await using dns = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } });
  dns.setFailure('acme.test', 'forged_first');
  using resolver = resolverFor([dns.server]);
  assert.equal((await resolver.a('acme.test')).kind, 'records');
});

test('a server without EDNS0 is queried again without it', async () => {
  await using dns = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } });
  dns.setFailure('acme.test', 'no_edns');
  using resolver = resolverFor([dns.server]);
  assert.equal((await resolver.a('acme.test')).kind, 'records');
});

test('a server that answered is queried first from then on', async () => {
  await using dead = await startFakeDns();
  await using healthy = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } });
  dead.setFailure('*', 'servfail');
  using resolver = resolverFor([dead.server, healthy.server]);
  await resolver.a('acme.test');
  await resolver.a('acme.test');
  assert.equal(dead.queries.length, 1);
  assert.equal(healthy.queries.length, 2);
});

test('a query is repeated after a lost packet, not after a refusal', async () => {
  await using dns = await startFakeDns();
  using resolver = resolverFor([dns.server], { queryTimeoutMs: 30 });
  dns.setFailure('*', 'timeout');
  await resolver.a('lost.test');
  dns.setFailure('*', 'servfail');
  await resolver.a('refused.test');
  const asked = (name: string) => dns.queries.filter((query) => query.name === name).length;
  assert.deepEqual([asked('lost.test'), asked('refused.test')], [2, 1]);
});

test('a look-up ends when its budget is used up, however many servers are left', async () => {
  await using dns = await startFakeDns();
  dns.setFailure('*', 'timeout');
  using resolver = resolverFor(Array.from({ length: 20 }, () => dns.server));
  const startedMs = performance.now();
  assert.equal((await resolver.a('acme.test', { budgetMs: 100 })).kind, 'error');
  assert.ok(performance.now() - startedMs < 30_000, 'not twenty times five seconds');
});

test('a closed port is an error at once', async () => {
  const gone = await startFakeDns();
  const { server } = gone;
  await gone[Symbol.asyncDispose]();
  using resolver = resolverFor([server]);
  assert.equal((await resolver.a('acme.test')).kind, 'error');
});

test('an answer is kept for its TTL, at least a minute and at most an hour', async () => {
  await using short = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } }, { ttlS: 0 });
  await using long = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } }, { ttlS: 86_400 });
  const clock = handClock();
  using shortLived = resolverFor([short.server], { world: clock, cache: {} });
  using longLived = resolverFor([long.server], { world: clock, cache: {} });
  const askBoth = () => Promise.all([shortLived.a('acme.test'), longLived.a('acme.test')]);
  await askBoth();
  clock.now += 59_000;
  await askBoth();
  assert.deepEqual([short.queries.length, long.queries.length], [1, 1]);
  clock.now += 2_000;
  await askBoth();
  assert.deepEqual([short.queries.length, long.queries.length], [2, 1]);
  clock.now += HOUR_MS;
  await askBoth();
  assert.deepEqual([short.queries.length, long.queries.length], [3, 2]);
});

test('NXDOMAIN is cached for five minutes, an error is not', async () => {
  await using dns = await startFakeDns();
  const clock = handClock();
  using resolver = resolverFor([dns.server], { world: clock, cache: {} });
  await resolver.mx('late.test');
  clock.now += 299_000;
  await resolver.mx('late.test');
  assert.equal(dns.queries.length, 1);
  clock.now += 2_000;
  dns.set('late.test', 'MX', ['10 mx.late.test']);
  assert.equal((await resolver.mx('late.test')).kind, 'records');

  dns.setFailure('broken.test', 'servfail');
  assert.equal((await resolver.mx('broken.test')).kind, 'error');
  dns.setFailure('broken.test', null);
  assert.equal((await resolver.mx('broken.test')).kind, 'nxdomain');
});

test('during a DNS outage MX records are used for six hours after their TTL', async () => {
  await using dns = await startFakeDns({
    'acme.test': { MX: ['10 mx.acme.test'], TXT: ['v=spf1 -all'] },
  });
  const clock = handClock();
  using resolver = resolverFor([dns.server], { world: clock, cache: {} });
  await resolver.mx('acme.test');
  await resolver.txt('acme.test');
  dns.setFailure('*', 'servfail');
  clock.now += 5 * HOUR_MS;
  assert.equal((await resolver.mx('acme.test')).kind, 'records');
  assert.equal(
    (await resolver.mx('acme.test', { fresh: true })).kind,
    'error',
    'a check wants now',
  );
  assert.equal((await resolver.txt('acme.test')).kind, 'error', 'TXT records are policies');
  clock.now += 2 * HOUR_MS;
  assert.equal((await resolver.mx('acme.test')).kind, 'error');
});

test('a fresh look-up bypasses the cache and renews it', async () => {
  await using dns = await startFakeDns({ 'acme.test': { TXT: ['old'] } });
  using resolver = resolverFor([dns.server], { cache: {} });
  await resolver.txt('acme.test');
  dns.set('acme.test', 'TXT', ['new']);
  const first = (answer: Awaited<ReturnType<Resolver['txt']>>) =>
    answer.kind === 'records' ? answer.records[0] : answer.kind;
  assert.equal(first(await resolver.txt('acme.test')), 'old');
  assert.equal(first(await resolver.txt('acme.test', { fresh: true })), 'new');
  assert.equal(first(await resolver.txt('acme.test')), 'new');
});

test('a hundred concurrent look-ups of one name make one query', async () => {
  await using dns = await startFakeDns({ 'acme.test': { A: ['192.0.2.1'] } });
  using resolver = resolverFor([dns.server]);
  const answers = await Promise.all(Array.from({ length: 100 }, () => resolver.a('acme.test')));
  assert.ok(answers.every((answer) => answer.kind === 'records'));
  assert.equal(dns.queries.length, 1);
});

test('the hundred best of fifteen hundred MX records are kept', async () => {
  await using dns = await startFakeDns();
  const many = Array.from({ length: 1_500 }, (_, at) => `${1_500 - at} m${at}.x.test`);
  dns.set('many.test', 'MX', many);
  using resolver = resolverFor([dns.server]);
  const answer = await resolver.mx('many.test');
  assert.ok(answer.kind === 'records');
  assert.equal(answer.records.length, 100);
  assert.deepEqual(answer.records[0], { preference: 1, exchange: 'm1499.x.test' });
});

test('the AD flag counts only when the resolver is trusted', async () => {
  await using dns = await startFakeDns({ 'a.test': { A: ['192.0.2.1'] } }, { authenticated: true });
  using doubting = resolverFor([dns.server]);
  using trusting = resolverFor([dns.server], { trustAuthenticatedData: true });
  const authenticated = async (resolver: Resolver) => {
    const answer = await resolver.a('a.test');
    return answer.kind === 'records' && answer.authenticated;
  };
  assert.equal(await authenticated(doubting), false);
  assert.equal(await authenticated(trusting), true);
});

test('one unauthenticated CNAME makes the whole answer unauthenticated', async () => {
  await using dns = await startFakeDns({ 'a.test': { CNAME: ['b.other.test'] } });
  // The first answer ends at the alias, so its target is queried separately.
  let asked = 0;
  dns.set('b.other.test', 'A', () => (asked++ % 2 === 0 ? [] : ['192.0.2.1']));
  using resolver = resolverFor([dns.server], { trustAuthenticatedData: true });
  const authenticated = async () => {
    const answer = await resolver.a('a.test');
    return answer.kind === 'records' && answer.authenticated;
  };
  dns.sign('a.test');
  assert.equal(await authenticated(), false);
  dns.sign('b.other.test');
  assert.equal(await authenticated(), true);
});

test('closing the resolver ends look-ups in progress', async () => {
  await using dns = await startFakeDns();
  dns.setFailure('*', 'timeout');
  const resolver = resolverFor([dns.server]);
  const pending = resolver.a('acme.test');
  resolver.close();
  assert.equal((await pending).kind, 'error');
});

test('server addresses are parsed with and without a port, and invalid ones refused', () => {
  assert.deepEqual(parseServer('192.0.2.1'), { ip: '192.0.2.1', port: 53 });
  assert.deepEqual(parseServer('192.0.2.1:5353'), { ip: '192.0.2.1', port: 5353 });
  assert.deepEqual(parseServer('2001:db8::1'), { ip: '2001:db8::1', port: 53 });
  assert.deepEqual(parseServer('[2001:db8::1]:5353'), { ip: '2001:db8::1', port: 5353 });
  for (const text of [
    '',
    'dns.test',
    '192.0.2.1:',
    '192.0.2.1:0',
    '192.0.2.1:70000',
    '[::1]',
    ':53',
  ]) {
    assert.equal(parseServer(text), null, text);
  }
  const world = { monotonicMs: () => 0 };
  assert.throws(() => createResolver({ servers: ['dns.test'], world }), /not the address of a DNS/);
});

test('reverse names are spelled for both families', () => {
  assert.equal(reverseName('192.0.2.1'), '1.2.0.192.in-addr.arpa');
  const tail = '8.b.d.0.1.0.0.2.ip6.arpa';
  assert.equal(reverseName('2001:DB8::1'), `1${'.0'.repeat(23)}.${tail}`);
  assert.equal(reverseName('2001:db8:1:2:3:4:5:6').length, reverseName('::').length);
});
