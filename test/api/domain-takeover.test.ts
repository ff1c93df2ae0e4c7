/** A project cannot send from a domain without its own DNS records, regardless of the records of others. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const dns = await startFakeDns();
const service = await startService({
  dns,
  env: {
    LETTERHAUS_HOSTNAME: 'mail.letterhaus.example',
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
dns.setFailure('simulator.test', 'servfail');

type Body = ApiResponse['body'];

async function newProject(name: string): Promise<string> {
  await service.cliJson('projects', 'create', name);
  return (await service.cliJson('keys', 'create', '--environment', 'live', '--project', name)).key;
}
const owner = await newProject('Owner');
const thief = await newProject('Thief');

async function added(name: string, key: string): Promise<Body> {
  const response = await service.request('POST', '/v1/domains', { key, body: { name } });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

async function verify({ id }: Body, key: string): Promise<Body> {
  return (await service.request('POST', `/v1/domains/${id}/verify`, { key })).body;
}

const sendFrom = (address: string, key: string) =>
  service.request('POST', '/v1/emails', { key, body: { ...EMAIL, from: address } });

/** As the owner of the domain does, who leaves it there. */
function publish({ records }: Body): void {
  for (const { type, name, value, priority } of records) {
    dns.set(name, type, [type === 'MX' ? `${priority} ${value}` : value]);
  }
}

test('records published by one project do not verify the domain for another project', async () => {
  const domain = await added('acme.example', owner);
  publish(domain);
  assert.equal((await verify(domain, owner)).status, 'verified');

  const stolen = await added('acme.example', thief);
  const checked = await verify(stolen, thief);
  assert.equal(checked.status, 'pending');
  const [dkim] = checked.records;
  assert.equal(dkim.status, 'missing');
  const names = ({ records }: Body): string[] => records.slice(0, 2).map(({ name }: Body) => name);
  assert.ok(!names(stolen).some((name) => names(domain).includes(name)), 'selectors are its own');
  const refused = await sendFrom('ceo@acme.example', thief);
  assertFailure(refused, 403, 'domain_not_verified');
  assert.equal((await sendFrom('us@acme.example', owner)).status, 202);
});

test('records of a removed domain verify no later addition, not even by the same project', async () => {
  const domain = await added('left.example', owner);
  publish(domain);
  assert.equal((await verify(domain, owner)).status, 'verified');
  await service.request('DELETE', `/v1/domains/${domain.id}`, { key: owner });
  for (const key of [thief, owner]) {
    assert.equal((await verify(await added('left.example', key), key)).status, 'pending');
    assertFailure(await sendFrom('us@left.example', key), 403, 'domain_not_verified');
  }
});

test('a verified domain does not cover its parent, subdomains or siblings', async () => {
  const domain = await added('mail.shop.example', owner);
  publish(domain);
  assert.equal((await verify(domain, owner)).status, 'verified');
  for (const other of [
    'shop.example',
    'a.mail.shop.example',
    'xmail.shop.example',
    'mail.shop.example.evil.example',
  ]) {
    assertFailure(await sendFrom(`us@${other}`, owner), 403, 'domain_not_verified');
  }
  assert.equal((await sendFrom('us@MAIL.shop.example', owner)).status, 202);
});

test('a domain whose records are missing for 72 hours can no longer be sent from', async () => {
  const domain = await added('sold.example', owner);
  publish(domain);
  assert.equal((await verify(domain, owner)).status, 'verified');
  for (const { name } of domain.records) dns.remove(name);
  assert.equal((await verify(domain, owner)).status, 'verified', 'a bad day does no harm');
  await service.clock.advance({ hours: 73 });
  assert.equal((await verify(domain, owner)).status, 'failed');
  assertFailure(await sendFrom('us@sold.example', owner), 403, 'domain_not_verified');
});
