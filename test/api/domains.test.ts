/** Sending domains: adding, verifying and removing them, and their records in the API. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { assertFailure, EMAIL, TIME, UUID_V7 } from '../support/api.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const HOSTNAME = 'mail.letterhaus.example';
const dns = await startFakeDns();
const service = await startService({
  dns,
  env: {
    LETTERHAUS_HOSTNAME: HOSTNAME,
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
const live = await service.liveKey();
// Live mail waits: a domain that cannot be looked up suppresses no address.
dns.setFailure('simulator.test', 'servfail');

type Body = ApiResponse['body'];

const add = (name: string, key = service.testKey) =>
  service.request('POST', '/v1/domains', { key, body: { name } });

async function added(name: string, key = service.testKey): Promise<Body> {
  const response = await add(name, key);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

async function verify(id: string, key = service.testKey): Promise<Body> {
  const response = await service.request('POST', `/v1/domains/${id}/verify`, { key });
  assert.equal(response.status, 200, response.text);
  return response.body;
}

const sendFrom = (domain: string, key = service.testKey) =>
  service.request('POST', '/v1/emails', { key, body: { ...EMAIL, from: `a@${domain}` } });

type DomainRecord = Body;
const dkimOf = ({ records }: Body): DomainRecord =>
  records.find(({ value }: Body) => /k=rsa/.test(value));
const recordOf = ({ records }: Body, kind: string): DomainRecord =>
  records.find(({ record }: Body) => record === kind);

/** Does at the DNS what the owner of the domain would. */
function publish({ name, records }: Body): void {
  dns.set(name, 'A', ['192.0.2.80']);
  for (const { type, name: at, value, priority } of records) {
    dns.set(at, type, [type === 'MX' ? `${priority} ${value}` : value]);
  }
}

test('a new domain lists the records to publish, and is not verified', async () => {
  const domain = await added('records.test');
  const { id, created_at, records, dkim, etag, ...rest } = domain;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.ok(recordOf(domain, 'DKIM').name.startsWith(`${dkim.selector}._domainkey.`));
  assert.deepEqual([dkim.since, dkim.next, dkim.previous], [created_at, null, null]);
  const fields = 'record type name value ttl priority required status found problem';
  assert.equal(Object.keys(recordOf(domain, 'MX')).join(' '), fields);
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  assert.deepEqual(rest, {
    object: 'domain',
    name: 'records.test',
    status: 'not_started',
    environment: 'test',
    tls: 'opportunistic',
    tracking: { opens: false, clicks: false },
    can_sign: true,
    verified_at: null,
    checked_at: null,
    failing_since: null,
    advice: [],
  });
  assert.deepEqual(
    records.map(({ record, type, required }: Body) => [record, type, required]).toSorted(),
    [
      ['DKIM', 'TXT', false],
      ['DKIM', 'TXT', true],
      ['MX', 'MX', true],
      ['SPF', 'TXT', true],
    ],
  );
  for (const { name, value, ttl, status, found, problem } of records) {
    assert.ok(name.endsWith('.records.test') && value.length > 0 && ttl > 0);
    assert.deepEqual([status, found, problem], ['not_started', [], null]);
  }
  const [mx, spf] = [recordOf(domain, 'MX'), recordOf(domain, 'SPF')];
  assert.deepEqual([mx.name, mx.value], ['send.records.test', HOSTNAME]);
  assert.equal(mx.priority, 10);
  assert.equal(spf.name, 'send.records.test');
  assert.match(spf.value, /^v=spf1 .*~all$/);
});

test('the DKIM keys are RSA-2048 and Ed25519, under selectors of the domain alone', async () => {
  const domain = await added('dkim.test');
  const other = await added('dkim2.test');
  const dkims = domain.records.filter(({ record }: Body) => record === 'DKIM');
  for (const { name, value } of dkims) {
    assert.match(name, /^[a-z0-9-]+\._domainkey\.dkim\.test$/);
    assert.match(value, /^v=DKIM1; k=(rsa|ed25519); p=[A-Za-z0-9+/]+=*$/);
  }
  const rsa = Buffer.from(/p=(.+)$/.exec(dkimOf(domain).value)![1]!, 'base64');
  const key = createPublicKey({ key: rsa, format: 'der', type: 'spki' });
  assert.equal(key.asymmetricKeyDetails?.modulusLength, 2_048);
  const ed25519 = dkims.find(({ value }: Body) => /k=ed25519/.test(value));
  assert.equal(Buffer.from(/p=(.+)$/.exec(ed25519.value)![1]!, 'base64').length, 32);
  const selectors = (one: Body) =>
    one.records
      .filter(({ record }: Body) => record === 'DKIM')
      .map(({ name }: Body) => name.split('.')[0]);
  assert.equal(new Set([...selectors(domain), ...selectors(other)]).size, 4);
});

test('TLS of a domain is opportunistic by default and can be changed', async () => {
  const { id, tls } = await added('tls.test');
  assert.equal(tls, 'opportunistic');
  const change = (body: unknown, key = service.testKey, path = `/v1/domains/${id}`) =>
    service.request('PATCH', path, { key, body });
  const changed = await change({ tls: 'enforced' });
  assert.deepEqual([changed.status, changed.body.tls], [200, 'enforced']);
  assert.deepEqual((await service.request('GET', `/v1/domains/${id}`)).body, changed.body);
  const body = { name: 'tls2.test', tls: 'enforced' };
  assert.equal((await service.request('POST', '/v1/domains', { body })).body.tls, 'enforced');

  for (const wrong of [{}, { tls: 'none' }, { tls: null }, { name: 'other.test' }]) {
    assertFailure(await change(wrong), 422, 'validation_error');
  }
  assertFailure(await change({ tls: 'enforced' }, live), 404, 'not_found');
  const nowhere = '/v1/domains/nowhere';
  assertFailure(await change({ tls: 'enforced' }, undefined, nowhere), 404, 'not_found');
});

test('in the test environment a domain is verified at once', async () => {
  const { id } = await added('easy.test');
  assertFailure(await sendFrom('easy.test'), 403, 'domain_not_verified');
  const domain = await verify(id);
  assert.equal(domain.status, 'verified');
  assert.match(domain.verified_at, TIME);
  assert.match(domain.checked_at, TIME);
  for (const { status, problem } of domain.records) {
    assert.deepEqual([status, problem], ['verified', null]);
  }
  assert.deepEqual((await service.request('GET', `/v1/domains/${id}`)).body, domain);
  assert.equal((await sendFrom('easy.test')).status, 202);
  assertFailure(await sendFrom('sub.easy.test'), 403, 'domain_not_verified');
  assert.deepEqual(
    dns.queries.filter(({ name }) => name.endsWith('easy.test')),
    [],
  );
});

test('a domain under .invalid has no records', async () => {
  const { id } = await added('acme.invalid');
  const domain = await verify(id);
  assert.deepEqual([domain.status, domain.verified_at], ['pending', null]);
  for (const { status, problem, name } of domain.records) {
    assert.equal(status, 'missing');
    assert.ok(problem.includes(name));
  }
  assertFailure(await sendFrom('acme.invalid'), 403, 'domain_not_verified');
});

test('an invalid domain name is refused', async () => {
  const wrong = [
    '',
    'acme',
    'acme..com',
    '-acme.com',
    'acme.com/',
    'https://acme.com',
    'a@acme.com',
  ];
  for (const name of [
    ...wrong,
    '192.0.2.1',
    '[::1]',
    'a b.com',
    `${'a'.repeat(64)}.com`,
    '*.acme.com',
  ]) {
    assertFailure(await add(name), 422, 'validation_error', /^name: /);
  }
  const missing = await service.request('POST', '/v1/domains', { body: {} });
  assertFailure(missing, 422, 'validation_error', /^name: .*required/);
});

test('a name is stored in lower case and ASCII, and can be added once per environment', async () => {
  assert.equal((await added('Bücher.TEST')).name, 'xn--bcher-kva.test');
  assertFailure(await add('xn--bcher-kva.test'), 409, 'conflict', /xn--bcher-kva\.test/);
  assertFailure(await add('BÜCHER.test'), 409, 'conflict');
  assert.equal((await add('bücher.test', live)).status, 201);
  assert.equal((await add('sub.bücher.test')).status, 201);
});

test('of ten concurrent additions of one name, one succeeds', async () => {
  const responses = await Promise.all(Array.from({ length: 10 }, () => add('race.test')));
  const statuses = responses.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [201, ...Array<number>(9).fill(409)]);
});

test('domains are listed newest first, page by page', async () => {
  const [one, two] = [await added('list1.test'), await added('list2.test')];
  const { body } = await service.request('GET', '/v1/domains?limit=1');
  assert.deepEqual([body.object, body.has_more, body.data[0].id], ['list', true, two.id]);
  const next = await service.request('GET', `/v1/domains?limit=1&after=${two.id}`);
  assert.equal(next.body.data[0].id, one.id);
});

test('a removed domain is not found, not listed, cannot be sent from and can be added again', async () => {
  const { id } = await added('gone.test');
  await verify(id);
  assert.equal((await sendFrom('gone.test')).status, 202);
  const removed = await service.request('DELETE', `/v1/domains/${id}`);
  const { waiting, ...gone } = removed.body;
  assert.deepEqual([removed.status, gone], [200, { object: 'domain', id, deleted: true }]);
  assert.ok(waiting <= 1, 'unless it was delivered before');
  for (const [method, path] of [
    ['GET', `/v1/domains/${id}`],
    ['DELETE', `/v1/domains/${id}`],
    ['POST', `/v1/domains/${id}/verify`],
  ] as const) {
    assertFailure(await service.request(method, path), 404, 'not_found');
  }
  assertFailure(await sendFrom('gone.test'), 403, 'domain_not_verified');
  const { body } = await service.request('GET', '/v1/domains?limit=100');
  assert.ok(!body.data.some((domain: Body) => domain.id === id));
  assert.notEqual((await added('gone.test')).id, id);
});

test('in the live environment a domain is verified when its records are published', async () => {
  const domain = await added('good.example', live);
  publish(domain);
  const verified = await verify(domain.id, live);
  assert.equal(verified.status, 'verified');
  for (const { status, found, value, problem } of verified.records) {
    assert.deepEqual([status, problem], ['verified', null]);
    assert.ok(found.length === 1 && found[0].includes(value));
  }
  assert.equal((await sendFrom('good.example', live)).status, 202);
  const about = verified.advice.map((advice: Body) => advice.about);
  assert.deepEqual(about.toSorted(), ['dmarc', 'inbound', 'ptr']);
});

test('the command line prints all advice, and that late bounces are lost without an inbound port', async () => {
  publish(await added('no-inbound.example', live));
  const { stdout } = await service.cli('domains', 'verify', 'no-inbound.example');
  assert.match(stdout, /can send\.\n! bounces and .* are lost: .* LETTERHAUS_INBOUND_PORT=25 /);
  assert.match(stdout, /\n! there is no DMARC record at _dmarc\.no-inbound\.example/);
  assert.match(stdout, /\n! .*, the host name of this service, has no public address in DNS/);
});

test('each missing record is reported with the value to publish', async () => {
  const domain = await added('empty.example', live);
  dns.set('empty.example', 'A', ['192.0.2.80']);
  const checked = await verify(domain.id, live);
  assert.equal(checked.status, 'pending');
  for (const { status, name, type, found, problem } of checked.records) {
    assert.deepEqual([status, found], ['missing', []]);
    assert.match(problem, new RegExp(`there is no ${type} record at ${name}`));
  }
  assertFailure(await sendFrom('empty.example', live), 403, 'domain_not_verified');
});

test('RSA, the return path and its SPF record are required, Ed25519 is not', async () => {
  const { records } = await added('needed.example', live);
  for (const [n, { required, record }] of records.entries()) {
    const domain = await added(`needed${n}.example`, live);
    publish(domain);
    const { name, type } = domain.records[n];
    dns.set(name, type, []);
    const checked = await verify(domain.id, live);
    assert.equal(checked.status, required ? 'pending' : 'verified', record);
    assert.equal(checked.records[n].status, 'missing');
  }
});

/** Mistakes in DNS records, each with the advice about the record. */
const MISTAKES: [string, (domain: Body) => DomainRecord, string, RegExp][] = [
  [
    'the DNS panel appended the zone name',
    (domain) => {
      const dkim = dkimOf(domain);
      dns.remove(dkim.name);
      dns.set(`${dkim.name}.${domain.name}`, 'TXT', [dkim.value]);
      return dkim;
    },
    'missing',
    /^the TXT record exists at .*_domainkey\.(\S+)\.\1: your DNS panel appended the zone name/,
  ],
  [
    'the key was cut off',
    (domain) => {
      const dkim = dkimOf(domain);
      dns.set(dkim.name, 'TXT', [dkim.value.slice(0, 255)]);
      return dkim;
    },
    'mismatch',
    /cut off/,
  ],
  [
    'another key is there',
    (domain) => {
      const dkim = dkimOf(domain);
      dns.set(dkim.name, 'TXT', [dkim.value.replace('p=MIIB', 'p=MIIC')]);
      return dkim;
    },
    'mismatch',
    /another key/,
  ],
  [
    'the value was entered with its quotation marks',
    (domain) => {
      const dkim = dkimOf(domain);
      dns.set(dkim.name, 'TXT', [`"${dkim.value}"`]);
      return dkim;
    },
    'mismatch',
    /quotation marks/,
  ],
  [
    'the MX leads elsewhere',
    (domain) => {
      const mx = recordOf(domain, 'MX');
      dns.set(mx.name, 'MX', ['10 mx.elsewhere.example']);
      return mx;
    },
    'mismatch',
    /mx\.elsewhere\.example/,
  ],
  [
    'the SPF does not name this service',
    (domain) => {
      const spf = recordOf(domain, 'SPF');
      dns.set(spf.name, 'TXT', ['v=spf1 include:elsewhere.example -all']);
      return spf;
    },
    'mismatch',
    /SPF|mail\.letterhaus\.example/,
  ],
  [
    'there are two SPF records',
    (domain) => {
      const spf = recordOf(domain, 'SPF');
      dns.set(spf.name, 'TXT', [spf.value, 'v=spf1 -all']);
      return spf;
    },
    'mismatch',
    /\b2\b|two/,
  ],
  [
    'the DNS server fails',
    (domain) => {
      const dkim = dkimOf(domain);
      dns.setFailure(dkim.name, 'servfail');
      return dkim;
    },
    'dns_error',
    /DNS gave no answer.*try again/,
  ],
];

for (const [n, [what, spoil, status, problem]] of MISTAKES.entries()) {
  test(`when ${what}, the record reports it`, async () => {
    const domain = await added(`mistake${n}.example`, live);
    publish(domain);
    const { name, type, record } = spoil(domain);
    const checked = await verify(domain.id, live);
    assert.notEqual(checked.status, 'verified');
    const spoilt = checked.records.find(
      (one: Body) => one.name === name && one.type === type && one.record === record,
    );
    assert.equal(spoilt.status, status, spoilt.problem);
    assert.match(spoilt.problem, problem);
    assert.doesNotMatch(spoilt.problem, /\n/);
  });
}

test('a verified domain fails when its records are missing for 72 hours, and recovers', async () => {
  const domain = await added('away.example', live);
  publish(domain);
  await verify(domain.id, live);
  const dkim = dkimOf(domain);
  dns.remove(dkim.name);
  const first = await verify(domain.id, live);
  assert.equal(first.status, 'verified');
  assert.equal(dkimOf(first).status, 'missing');
  assert.equal((await sendFrom('away.example', live)).status, 202);
  await service.clock.advance({ hours: 71 });
  assert.equal((await verify(domain.id, live)).status, 'degraded');
  assert.equal((await sendFrom('away.example', live)).status, 202);
  await service.clock.advance({ hours: 2 });
  assert.equal((await verify(domain.id, live)).status, 'failed');
  assertFailure(await sendFrom('away.example', live), 403, 'domain_not_verified');
  publish(domain);
  assert.equal((await verify(domain.id, live)).status, 'verified');
  assert.equal((await sendFrom('away.example', live)).status, 202);
});
