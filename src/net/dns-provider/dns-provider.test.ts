/** The DNS providers, each against a server with its API. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import {
  PROVIDER_TOKEN,
  startDnsProviderServer,
  type ZoneRecord,
} from '../../../test/support/dns-provider-server.ts';
import { DnsProviderProblem, type DnsProvider } from './dns-provider.ts';
import { openDnsProvider } from './open-provider.ts';
import { DNS_PROVIDERS, type DnsProviderAccess } from './providers.ts';
import { type DnsRecord, fromZoneFile, toZoneFile } from './record-text.ts';

const ZONE = 'acme.example';
const OTHERS: ZoneRecord[] = [
  { name: ZONE, type: 'TXT', value: '"v=spf1 include:_spf.other.example -all"', ttlS: 7_200 },
  { name: ZONE, type: 'TXT', value: '"other-verification=1 \\"x\\""', ttlS: 7_200 },
  { name: ZONE, type: 'MX', value: '10 mx.other.example.', ttlS: 7_200 },
  { name: ZONE, type: 'A', value: '192.0.2.1', ttlS: 7_200 },
  { name: ZONE, type: 'AAAA', value: '2001:db8::1', ttlS: 7_200 },
  { name: 'zzz.acme.example', type: 'A', value: '192.0.2.2', ttlS: 7_200 },
];
const DKIM: DnsRecord = {
  name: `lh1._domainkey.${ZONE}`,
  type: 'TXT',
  value: `v=DKIM1; k=rsa; p=${'A'.repeat(390)}`,
  ttlS: 300,
};
const RETURN_PATH: DnsRecord = {
  name: `send.${ZONE}`,
  type: 'MX',
  value: '10 mail.acme.example',
  ttlS: 3_600,
};
const APEX: DnsRecord = { name: ZONE, type: 'TXT', value: 'proof=2', ttlS: 3_600 };
const QUICK = { timeoutMs: 20_000, waitsMs: [1, 1], limitWaitMaxMs: 10_000 };
const world = { now: () => Date.now() };

const open = (access: DnsProviderAccess): DnsProvider =>
  openDnsProvider(access, { world, timing: QUICK });

async function sortedRecords(provider: DnsProvider, name: string): Promise<string[]> {
  const zone = await zoneOf(provider);
  const records = await provider.listRecords(zone, name);
  return records.map(({ type, value }) => `${type} ${value}`).toSorted();
}

async function zoneOf(provider: DnsProvider) {
  const zone = await provider.findZone(`mail.sub.${ZONE}`);
  assert.ok(zone, 'the zone is found');
  return zone;
}

const OTHERS_LISTED = [
  'A 192.0.2.1',
  'AAAA 2001:db8::1',
  'MX 10 mx.other.example',
  'TXT other-verification=1 "x"',
  'TXT v=spf1 include:_spf.other.example -all',
];

for (const name of DNS_PROVIDERS) {
  test(`${name}: values are added and removed one by one, and records of others stay`, async () => {
    await using server = await startDnsProviderServer(name, { [ZONE]: OTHERS, 'else.example': [] });
    const provider = open(server.access);
    const zone = await zoneOf(provider);
    assert.equal(zone.name, ZONE);
    assert.deepEqual(await sortedRecords(provider, ZONE), OTHERS_LISTED);
    for (const record of [DKIM, RETURN_PATH, APEX]) await provider.upsert(zone, record);
    const changes = server.changes.length;
    for (const record of [DKIM, RETURN_PATH, APEX]) await provider.upsert(zone, record);
    assert.equal(server.changes.length, changes, 'a record that exists is not written again');
    assert.deepEqual(await sortedRecords(provider, DKIM.name), [`TXT ${DKIM.value}`]);
    assert.deepEqual(await sortedRecords(provider, RETURN_PATH.name), ['MX 10 mail.acme.example']);
    const withApex = [...OTHERS_LISTED, 'TXT proof=2'].toSorted();
    assert.deepEqual(await sortedRecords(provider, ZONE), withApex);
    for (const record of [DKIM, RETURN_PATH, APEX, APEX]) await provider.remove(zone, record);
    assert.deepEqual(await sortedRecords(provider, ZONE), OTHERS_LISTED);
    assert.deepEqual(await sortedRecords(provider, DKIM.name), []);
    const left = server.records(ZONE).map(({ ttlS }) => ttlS);
    assert.deepEqual(
      left,
      OTHERS.map(({ ttlS }) => ttlS),
      'the times of others stay',
    );
  });

  test(`${name}: after rate limits, lost responses and failures the record exists, or a sentence says why not`, async () => {
    await using server = await startDnsProviderServer(name, { [ZONE]: [] });
    const provider = open(server.access);
    server.fault = 'fails';
    const zone = await zoneOf(provider);
    server.fault = 'limited';
    await provider.upsert(zone, RETURN_PATH);
    server.fault = 'lost';
    await provider.upsert(zone, DKIM);
    server.fault = 'lost';
    await provider.remove(zone, RETURN_PATH);
    const values = server.records(ZONE).map(({ type, name: owner }) => `${owner} ${type}`);
    assert.deepEqual(values, [`${DKIM.name} TXT`]);
    assert.equal(await provider.findZone('www.unknown.example'), null);
    const gone = { ...zone, id: name === 'hetzner' ? '99' : 'gone.example' };
    await assert.rejects(provider.upsert(gone, DKIM), {
      name: 'DnsProviderProblem',
      kind: 'refused',
    });
  });

  test(`${name}: a wrong token is reported in a sentence with the remedy and without the token`, async () => {
    await using server = await startDnsProviderServer(name, { [ZONE]: [] });
    const token = 'a-wrong-token-8d1f';
    const error = await open({ ...server.access, token })
      .findZone(ZONE)
      .then(
        () => null,
        (problem: unknown) => problem,
      );
    assert.ok(error instanceof DnsProviderProblem);
    assert.equal(error.kind, 'token');
    assert.match(
      error.message,
      /refuses the token \(HTTP 40\d.*\)\. Create a token with .*, and set [A-Z]/,
    );
    assert.doesNotMatch(error.message, new RegExp(`${token}|${PROVIDER_TOKEN}`));
  });
}

for (const name of ['route53', 'hetzner', 'cloudflare', 'digitalocean'] as const) {
  test(`${name}: three writers at once add all of their values`, async () => {
    await using server = await startDnsProviderServer(name, { [ZONE]: [] });
    const zone = await zoneOf(open(server.access));
    const challenge = { name: `_acme-challenge.${ZONE}`, type: 'TXT', ttlS: 60 } as const;
    const values = ['a', 'b', 'c'];
    await Promise.all(
      values.map((value) => open(server.access).upsert(zone, { ...challenge, value })),
    );
    const stored = server.records(ZONE).map(({ value }) => value);
    assert.deepEqual(stored.toSorted(), ['"a"', '"b"', '"c"']);
  });
}

test('a provider that asks to wait longer than a minute is left alone, and the sentence says so', async () => {
  await using server = await startDnsProviderServer('cloudflare', { [ZONE]: [] });
  const timing = { ...QUICK, limitWaitMaxMs: 0 };
  const provider = openDnsProvider(server.access, { world, timing });
  const zone = await zoneOf(provider);
  server.fault = 'limited';
  await assert.rejects(provider.upsert(zone, DKIM), {
    kind: 'unavailable',
    message:
      'Cloudflare limits the rate of requests (HTTP 429: Please wait and consider throttling). Repeat the command later.',
  });
  assert.deepEqual(server.records(ZONE), []);
});

test('the token goes to no other host: not by a redirect, and not by a link to the next page', async () => {
  const tokens: (string | undefined)[] = [];
  const other = createServer((request, response) => {
    tokens.push(request.headers.authorization);
    response.end('{}');
  });
  const elsewhere = await listen(other);
  const hostile = createServer(({ url = '' }, response) => {
    const next = { domain_records: [], links: { pages: { next: `${elsewhere}/records?page=2` } } };
    if (url.includes('/records')) response.end(JSON.stringify(next));
    else if (url.includes('redirected')) response.writeHead(307, { location: elsewhere }).end();
    else response.end('{"domain":{}}');
  });
  const baseUrl = await listen(hostile);
  const access = { token: PROVIDER_TOKEN, accessKeyId: null, sessionToken: null, baseUrl };
  const provider = open({ name: 'digitalocean', ...access });
  const zone = await zoneOf(provider);
  await assert.rejects(provider.listRecords(zone, ZONE), {
    message: 'DigitalOcean names another host for the next page.',
  });
  await assert.rejects(provider.findZone('redirected.example'), { kind: 'unavailable' });
  assert.deepEqual(tokens, []);
  for (const server of [other, hostile]) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a provider that cannot be reached is named with its host', async () => {
  const server = await startDnsProviderServer('desec', {});
  const { access } = server;
  await server[Symbol.asyncDispose]();
  const host = new URL(access.baseUrl ?? '').host;
  await assert.rejects(open(access).findZone(ZONE), {
    kind: 'unavailable',
    message: `deSEC cannot be reached at ${host} (ECONNREFUSED).`,
  });
});

test('a TXT of any characters and length is the same after the way through a zone file', () => {
  for (const value of ['', 'a "b" \\c', 'ä;=', `x${'é'.repeat(200)}`, 'y'.repeat(256)]) {
    const text = toZoneFile({ type: 'TXT', value });
    assert.match(text, /^"(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*$/);
    assert.equal(fromZoneFile('TXT', text), value);
  }
});
