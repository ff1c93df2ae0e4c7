/** Shows which hosts are tried for a domain and in which order, from zones that a DNS server of the tests answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeDns, type FakeZone } from '../../../test/support/fake-dns.ts';
import { createAddressGuard } from '../ip-addresses.ts';
import { createResolver } from './resolver.ts';
import { resolveMailHosts, type MailHosts, type MailHostOptions } from './mx.ts';
import { connectionGroup, providerOf } from '../providers.ts';

const STRICT = createAddressGuard({ allowPrivate: false });

/** Returns the route of acme.test in a zone, over real packets, with a fixed random number. */
async function routeIn(
  zone: FakeZone,
  options: Partial<MailHostOptions> & { broken?: readonly string[]; authenticated?: boolean } = {},
): Promise<MailHosts> {
  const { authenticated = false } = options;
  await using dns = await startFakeDns(zone, { authenticated });
  for (const name of options.broken ?? []) dns.setFailure(name, 'servfail');
  const resolver = createResolver({
    servers: [dns.server],
    world: { monotonicMs: () => performance.now() },
    trustAuthenticatedData: authenticated,
  });
  const route = await resolveMailHosts('acme.test', {
    resolver,
    guard: STRICT,
    random: () => 0.5,
    ...options,
  });
  resolver.close();
  return route;
}

function hostsOf(route: MailHosts): [string, readonly string[]][] {
  assert.ok(route.kind === 'hosts', JSON.stringify(route));
  return route.hosts.map(({ name, addresses }) => [name, addresses]);
}

test('mail servers come by preference, each with its IPv4 addresses first', async () => {
  const route = await routeIn({
    'acme.test': { MX: ['20 b.mx.test', '10 a.mx.test'] },
    'a.mx.test': { AAAA: ['2606:4700::1'], A: ['8.8.8.1', '8.8.8.2'] },
    'b.mx.test': { A: ['8.8.8.3'] },
  });
  assert.deepEqual(hostsOf(route), [
    ['a.mx.test', ['8.8.8.1', '8.8.8.2', '2606:4700::1']],
    ['b.mx.test', ['8.8.8.3']],
  ]);
});

test('a mail server with only IPv6 is used', async () => {
  const route = await routeIn({
    'acme.test': { MX: ['10 six.mx.test'] },
    'six.mx.test': { AAAA: ['2606:4700::6'] },
  });
  assert.deepEqual(hostsOf(route), [['six.mx.test', ['2606:4700::6']]]);
});

test('mail servers of equal preference are shuffled', async () => {
  const zone: FakeZone = { 'acme.test': { MX: ['10 a.mx.test', '10 b.mx.test', '5 c.mx.test'] } };
  for (const name of ['a', 'b', 'c']) zone[`${name}.mx.test`] = { A: ['8.8.8.8'] };
  const namesWith = async (randoms: number[]) => {
    const route = await routeIn(zone, { random: () => randoms.shift() ?? 0 });
    return hostsOf(route).map(([name]) => name.slice(0, 1));
  };
  // Random numbers are drawn in the order of the answer: c, a, b.
  assert.deepEqual(await namesWith([0.9, 0.1, 0.2]), ['c', 'a', 'b']);
  assert.deepEqual(await namesWith([0.9, 0.2, 0.1]), ['c', 'b', 'a']);
});

test('a domain without MX is its own mail server', async () => {
  const route = await routeIn({ 'acme.test': { A: ['8.8.8.8'] } });
  assert.deepEqual(hostsOf(route), [['acme.test', ['8.8.8.8']]]);
});

test('a CNAME at the domain and at a mail server is followed', async () => {
  const route = await routeIn({
    'acme.test': { CNAME: ['real.test'] },
    'real.test': { MX: ['10 alias.test'] },
    'alias.test': { CNAME: ['host.test'] },
    'host.test': { A: ['8.8.8.8'] },
  });
  assert.deepEqual(hostsOf(route), [['alias.test', ['8.8.8.8']]]);
});

test('where DNSSEC authenticates the CNAMEs of the domain, their target is returned', async () => {
  const zone = {
    'acme.test': { CNAME: ['Real.test'] },
    'real.test': { MX: ['10 a.mx.test'] },
    'a.mx.test': { A: ['8.8.8.1'] },
  };
  const secure = await routeIn(zone, { authenticated: true });
  assert.ok(secure.kind === 'hosts');
  assert.deepEqual(secure.hosts[0]?.daneNames, ['a.mx.test']);
  assert.equal(secure.hosts[0]?.daneAlias, 'real.test');
  const insecure = await routeIn(zone);
  assert.ok(insecure.kind === 'hosts' && insecure.hosts[0]?.daneAlias === undefined);
});

test('a null MX means that the domain accepts no mail, even with an address', async () => {
  const route = await routeIn({ 'acme.test': { MX: ['0 .'], A: ['8.8.8.8'] } });
  assert.equal(route.kind, 'null_mx');
});

test('a null MX next to real ones is ignored', async () => {
  const route = await routeIn({
    'acme.test': { MX: ['0 .', '10 a.mx.test'] },
    'a.mx.test': { A: ['8.8.8.8'] },
  });
  assert.deepEqual(hostsOf(route), [['a.mx.test', ['8.8.8.8']]]);
});

test('a domain that does not exist is distinguished from one without a mail server', async () => {
  assert.deepEqual(await routeIn({}), {
    kind: 'no_such_domain',
    message: 'the domain acme.test does not exist',
  });
  assert.equal((await routeIn({ 'acme.test': { TXT: ['x'] } })).kind, 'no_mail_host');
  const nowhere = await routeIn({ 'acme.test': { MX: ['10 gone.test', '20 192.0.2.1'] } });
  assert.equal(nowhere.kind, 'no_mail_host');
});

test('a DNS failure is temporary, at the domain as at its only mail server', async () => {
  const zone: FakeZone = { 'acme.test': { MX: ['10 a.mx.test'] } };
  assert.equal((await routeIn(zone, { broken: ['acme.test'] })).kind, 'temporary');
  assert.equal((await routeIn(zone, { broken: ['a.mx.test'] })).kind, 'temporary');
});

test('one silent mail server does not stop the others', async () => {
  const route = await routeIn(
    {
      'acme.test': { MX: ['10 a.mx.test', '20 b.mx.test', '30 gone.test'] },
      'b.mx.test': { A: ['8.8.8.8'] },
    },
    { broken: ['a.mx.test'] },
  );
  assert.deepEqual(hostsOf(route), [['b.mx.test', ['8.8.8.8']]]);
  assert.deepEqual(route.kind === 'hosts' && route.dropped.map(({ name }) => name), [
    'a.mx.test',
    'gone.test',
  ]);
});

test('a missing answer about the only usable server is temporary, even if another is refused', async () => {
  const route = await routeIn(
    {
      'acme.test': { MX: ['10 a.mx.test', '20 b.mx.test'] },
      'b.mx.test': { A: ['127.0.0.1'] },
    },
    { broken: ['a.mx.test'] },
  );
  assert.equal(route.kind, 'temporary');
});

test('private addresses are dropped, and a domain with no others is refused with the reason', async () => {
  const zone: FakeZone = {
    'acme.test': { MX: ['10 a.mx.test', '20 b.mx.test', '30 c.mx.test'] },
    'a.mx.test': { A: ['127.0.0.1'], AAAA: ['::1'] },
    'b.mx.test': { A: ['10.0.0.1', '8.8.8.8'] },
    'c.mx.test': { AAAA: ['::ffff:10.0.0.1'] },
  };
  assert.deepEqual(hostsOf(await routeIn(zone)), [['b.mx.test', ['8.8.8.8']]]);
  zone['b.mx.test'] = { A: ['169.254.169.254'] };
  const refused = await routeIn(zone);
  assert.equal(refused.kind, 'refused');
  assert.match(refused.kind === 'refused' ? refused.message : '', /127\.0\.0\.1 is a loopback/);
  const allowed = await routeIn(zone, { guard: createAddressGuard({ allowPrivate: true }) });
  assert.equal(hostsOf(allowed).length, 3);
});

test('our own name in the MX list removes itself and every entry without a better preference', async () => {
  const zone: FakeZone = {
    'acme.test': { MX: ['10 a.mx.test', '20 b.mx.test', '20 ours.test', '30 c.mx.test'] },
  };
  for (const name of ['a.mx', 'b.mx', 'c.mx', 'ours']) zone[`${name}.test`] = { A: ['8.8.8.8'] };
  const route = await routeIn(zone, { ownNames: new Set(['node.test', 'ours.test']) });
  assert.deepEqual(hostsOf(route), [['a.mx.test', ['8.8.8.8']]]);
  const loop = await routeIn(zone, { ownNames: new Set(['a.mx.test']) });
  assert.equal(loop.kind, 'refused');
  assert.match(loop.kind === 'refused' ? loop.message : '', /this service itself/);
});

test('of many mail servers, the ten most preferred are looked up', async () => {
  const zone: FakeZone = {};
  zone['acme.test'] = { MX: Array.from({ length: 1_000 }, (_, at) => `${at + 1} m${at}.mx.test`) };
  for (let at = 0; at < 1_000; at++) zone[`m${at}.mx.test`] = { A: ['8.8.8.8'] };
  const names = hostsOf(await routeIn(zone)).map(([name]) => name);
  assert.deepEqual(
    names,
    Array.from({ length: 10 }, (_, at) => `m${at}.mx.test`),
  );
});

test('one mail server listed twice is tried once', async () => {
  const route = await routeIn({
    'acme.test': { MX: ['20 A.mx.test', '10 a.mx.test'] },
    'a.mx.test': { A: ['8.8.8.8'] },
  });
  assert.deepEqual(hostsOf(route), [['a.mx.test', ['8.8.8.8']]]);
});

test('the MX hosts of a large provider share one key, any other host has its own', () => {
  const keys: [string[], string][] = [
    [['aspmx.l.google.com', 'alt4.aspmx.l.google.com', 'aspmx2.googlemail.com'], 'google'],
    [['gmail-smtp-in.l.google.com', 'alt1.gmail-smtp-in.l.google.com'], 'google'],
    [['smtp.google.com'], 'google'],
    [['hotmail-com.olc.protection.outlook.com'], 'outlook'],
    [['acme-com.mail.protection.outlook.com'], 'office365'],
    [['acme-com.a-v1.mx.microsoft'], 'microsoft'],
    [['mta5.am0.yahoodns.net', 'mta6.am0.yahoodns.net'], 'yahoo'],
    [['mx-eu.mail.am0.yahoodns.net', 'mx-aol.mail.gm0.yahoodns.net'], 'yahoo'],
    [['mx01.mail.icloud.com', 'mx02.mail.icloud.com'], 'apple'],
    [['smtp-in.orange.fr'], 'orange'],
    [['mx1.comcast.net', 'mx2.mxge.comcast.net'], 'comcast'],
    [['eu-smtp-inbound-1.mimecast.com', 'za-smtp-inbound-2.mimecast.co.za'], 'mimecast'],
    [['mx2.acme.co.uk', 'mx1.acme.co.uk'], 'mx1.acme.co.uk+mx2.acme.co.uk'],
    [['notgoogle.com'], 'notgoogle.com'],
    [['localhost'], 'localhost.'],
    [['google'], 'google.'],
    [['mx.a.test+mx.b.test'], 'mx.a.test?mx.b.test'],
    [['192.0.2.7'], '192.0.2.7'],
  ];
  for (const [hosts, key] of keys) assert.equal(providerOf(hosts), key);
});

test('a name below the domain of a large provider, but not one of its MX hosts, does not belong to the provider', () => {
  const names = [
    'www.google.com',
    'storage.google.com',
    'dead.l.google.com',
    'aspmx.l.google.com.evil.test',
    'x.aspmx.l.google.com',
    'www.outlook.com',
    'a.b.mail.protection.outlook.com',
    'www.yahoodns.net',
    'www.icloud.com',
    'www.comcast.net',
    'www.mimecast.com',
    'www.orange.fr',
  ];
  for (const name of names) assert.equal(providerOf([name]), name);
});

test('the operator may name hosts of a domain as one provider', () => {
  const own = [['hoster.test', 'hoster.test']] as const;
  assert.equal(providerOf(['a.hoster.test', 'b.hoster.test'], own), 'hoster.test');
});

test('the key of many long names is short and unique to these names', () => {
  const names = Array.from({ length: 10 }, (_, at) => `m${at}.${'x'.repeat(60)}.test`);
  const key = providerOf(names);
  assert.ok(key.length <= 200, key);
  assert.notEqual(providerOf(names.slice(1)), key);
  assert.notEqual(providerOf([...names.slice(0, 9), 'evil.test']), key);
});

test('hosts of a registrable domain form a group, and two customers of a cloud do not', () => {
  assert.equal(connectionGroup('mx1.acme.co.uk+mx2.acme.co.uk'), 'acme.co.uk');
  assert.equal(connectionGroup('google'), 'google');
  assert.equal(connectionGroup('mx.b.test+mx.a.test'), 'a.test+b.test');
  assert.equal(connectionGroup('192.0.2.7'), '192.0.2.7');
  assert.notEqual(
    connectionGroup('mail.one.herokuapp.com'),
    connectionGroup('mail.two.herokuapp.com'),
  );
});

test('the key comes from the servers of the best preference', async () => {
  const route = await routeIn({
    'acme.test': { MX: ['10 mx1.one.test', '10 mx2.one.test', '20 spare.other.test'] },
    'mx1.one.test': { A: ['8.8.8.1'] },
    'mx2.one.test': { A: ['8.8.8.2'] },
    'spare.other.test': { A: ['8.8.8.3'] },
  });
  assert.ok(route.kind === 'hosts');
  assert.equal(route.provider, 'mx1.one.test+mx2.one.test');
  const ofHosts = route.hosts.map(({ provider = null }) => provider);
  assert.deepEqual(ofHosts, [null, null, 'spare.other.test']);
});
