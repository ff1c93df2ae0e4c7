/** The records of a domain are added at the DNS provider, by an owner and without touching others. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import { memberOf, ownerOf } from '../support/browser.ts';
import { PROVIDER_TOKEN, startDnsProviderServer } from '../support/dns-provider-server.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startService } from '../support/service.ts';

const THEIR_SPF = {
  name: 'send.acme.example',
  type: 'TXT',
  value: '"v=spf1 include:_spf.other.example -all"',
  ttlS: 300,
};
const dns = await startFakeDns();
const provider = await startDnsProviderServer('hetzner', {
  'acme.example': [THEIR_SPF],
  'shop.example': [],
});
const service = await startService({
  dns,
  env: {
    LETTERHAUS_DNS_PROVIDER: 'hetzner',
    HCLOUD_TOKEN: PROVIDER_TOKEN,
    LETTERHAUS_DNS_API_URL: provider.access.baseUrl ?? '',
    LETTERHAUS_HOSTNAME: 'mail.example.org',
    LETTERHAUS_SUBMISSION_PORTS: '0/tls',
    LETTERHAUS_LIMIT_AUTH: '1000/60',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const live = { 'letterhaus-environment': 'live' };

const addDomain = async (name: string): Promise<string> => {
  const { status, body, text } = await owner.post('/v1/domains', { name }, live);
  assert.equal(status, 201, text);
  return body.id;
};

test('missing records are added once, and what is in the way is named', async () => {
  const id = await addDomain('acme.example');
  const path = `/v1/domains/${id}/publish`;
  const dry = (await owner.post(path, { dry_run: true }, live)).body;
  const actions = dry.records.map(
    ({ purpose, action }: { purpose: string; action: string }) => `${purpose} ${action}`,
  ) as string[];
  assert.deepEqual(actions.toSorted(), [
    'DKIM add',
    'DKIM add',
    'DMARC add',
    'MX add',
    'SPF blocked',
  ]);
  assert.equal(dry.added, 0);
  assert.deepEqual(provider.records('acme.example'), [THEIR_SPF], 'a dry run adds nothing');

  const { body } = await owner.post(path, {}, live);
  assert.deepEqual([body.provider, body.zone, body.added], ['Hetzner', 'acme.example', 4]);
  const spf = body.records.find(({ purpose }: { purpose: string }) => purpose === 'SPF');
  assert.match(spf.problem, /may have only one SPF record\. Replace it with "v=spf1 .+ -all"/);
  assert.equal(provider.records('acme.example').length, 5);
  const again = (await owner.post(path, {}, live)).body;
  assert.equal(again.added, 0);
  assert.equal(provider.records('acme.example').length, 5);
  assert.ok(!JSON.stringify(body).includes(PROVIDER_TOKEN));
  const [entry] = (await owner.get('/v1/audit_log?action=publishDomainRecords')).body.data;
  assert.equal(entry.target_name, 'acme.example');
});

test('a domain of another account and a token that is refused are sentences', async () => {
  const elsewhere = await addDomain('elsewhere.example');
  const response = await owner.post(`/v1/domains/${elsewhere}/publish`, {}, live);
  assertFailure(response, 409, 'conflict');
  assert.match(response.body.error.message, /Hetzner has no zone for elsewhere\.example/);
  assertFailure(await owner.post(`/v1/domains/${UNKNOWN_ID}/publish`, {}, live), 404, 'not_found');
});

test('only owners of the installation publish records, because the token may write every zone', async () => {
  const id = await addDomain('shop.example');
  const admin = await memberOf(service, owner, 'admin');
  const path = `/v1/domains/${id}/publish`;
  assertFailure(await admin.post(path, {}, live), 403, 'authorization_error');
  const { body: key } = await owner.post('/v1/api-keys', { name: 'Shop' }, live);
  const byKey = await service.request('POST', path, { key: key.key, body: {} });
  assertFailure(byKey, 403, 'authorization_error');
  assert.deepEqual(provider.records('shop.example'), []);
});

test('every member sees how programs reach the service', async () => {
  const viewer = await memberOf(service, owner, 'viewer');
  const { body } = await viewer.get('/v1/connection');
  assert.deepEqual(body, {
    object: 'connection',
    url: service.url,
    has_public_url: false,
    smtp: { host: 'mail.example.org', ports: body.smtp.ports },
    dns_provider: 'hetzner',
  });
  assert.equal(body.smtp.ports.length, 1);
});
