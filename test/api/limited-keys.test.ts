/** A limited key creates, sees and changes nothing broader than itself. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, UNKNOWN_ID } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const SOON = '2040-01-01T00:00:00.000Z';
const LATER = '2041-01-01T00:00:00.000Z';

const ask = (key: string, method: string, path: string, body?: object) =>
  service.request(method, path, { key, ...(body && { body }) });

async function made(path: string, body: object, key = service.testKey): Promise<Body> {
  const response = await ask(key, 'POST', path, body);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const makeKey = (rights: object = {}, by?: string) =>
  made('/v1/api-keys', { name: 'made by a test', ...rights }, by);
const stateOf = async (id: string): Promise<Body> => {
  const { data } = (await ask(service.testKey, 'GET', '/v1/api-keys?limit=100')).body;
  return data.find((one: Body) => one.id === id);
};

const { id: ownDomain } = await made('/v1/domains', { name: 'own.test' });
const { id: otherDomain } = await made('/v1/domains', { name: 'other.test' });
for (const id of [ownDomain, otherDomain]) {
  await ask(service.testKey, 'POST', `/v1/domains/${id}/verify`);
}
const limited = await makeKey({ domain: 'own.test', expires_at: SOON });

test('a key with a domain and an expiry cannot remove either', async () => {
  for (const change of [
    { domain: null },
    { domain: 'other.test' },
    { expires_at: null },
    { expires_at: LATER },
    { domain: null, expires_at: null },
  ]) {
    const response = await ask(limited.key, 'PATCH', `/v1/api-keys/${limited.id}`, change);
    assertFailure(response, 403, 'authorization_error', /own\.test|2040-01-01/);
  }
  const { domain, expires_at } = await stateOf(limited.id);
  assert.deepEqual([domain, expires_at], ['own.test', SOON]);
});

test('a limited key can restrict and rename itself, and cannot undo a restriction', async () => {
  const { id, key } = await makeKey({ domain: 'own.test', expires_at: LATER });
  const path = `/v1/api-keys/${id}`;
  const narrowed = await ask(key, 'PATCH', path, { name: 'Narrow', expires_at: SOON });
  assert.deepEqual([narrowed.body.name, narrowed.body.expires_at], ['Narrow', SOON]);
  assertFailure(await ask(key, 'PATCH', path, { expires_at: LATER }), 403, 'authorization_error');
  const unlimited = await makeKey();
  const itself = `/v1/api-keys/${unlimited.id}`;
  const limitedNow = await ask(unlimited.key, 'PATCH', itself, { domain: 'own.test' });
  assert.equal(limitedNow.body.domain, 'own.test');
  const back = await ask(unlimited.key, 'PATCH', itself, { domain: null });
  assertFailure(back, 403, 'authorization_error');
});

test('a limited key creates only keys within its own limits', async () => {
  const inherited = await makeKey({}, limited.key);
  assert.deepEqual([inherited.domain, inherited.expires_at], ['own.test', SOON]);
  const narrower = await makeKey(
    { permission: 'sending_access', expires_at: '2030-01-01T00:00:00.000Z' },
    limited.key,
  );
  assert.deepEqual(
    [narrower.permission, narrower.domain, narrower.expires_at],
    ['sending_access', 'own.test', '2030-01-01T00:00:00.000Z'],
  );
  for (const rights of [{ domain: 'other.test' }, { expires_at: LATER }]) {
    const response = await ask(limited.key, 'POST', '/v1/api-keys', { name: 'broader', ...rights });
    assertFailure(response, 403, 'authorization_error');
  }
});

test('a limited key cannot see a broader key', async () => {
  const equal = await makeKey({ domain: 'own.test', expires_at: SOON });
  const broader = [
    await makeKey(),
    await makeKey({ domain: 'own.test' }),
    await makeKey({ domain: 'own.test', expires_at: LATER }),
    await makeKey({ expires_at: SOON }),
    await makeKey({ domain: 'other.test', expires_at: SOON }),
    await makeKey({ permission: 'sending_access' }),
  ];
  for (const { id } of broader) {
    const path = `/v1/api-keys/${id}`;
    const narrow = { domain: 'own.test', expires_at: SOON };
    assertFailure(await ask(limited.key, 'PATCH', path, narrow), 404, 'not_found');
    assertFailure(await ask(limited.key, 'DELETE', path), 404, 'not_found');
    assertFailure(await ask(limited.key, 'POST', `${path}/rotate`), 404, 'not_found');
    assert.ok(await stateOf(id));
  }
  const { data } = (await ask(limited.key, 'GET', '/v1/api-keys?limit=100')).body;
  const listed = data.map(({ id }: Body) => id);
  assert.ok(listed.includes(equal.id) && listed.includes(limited.id));
  assert.deepEqual(
    broader.filter(({ id }) => listed.includes(id)),
    [],
  );
  const rotated = await ask(limited.key, 'POST', `/v1/api-keys/${equal.id}/rotate`);
  assert.deepEqual([rotated.body.domain, rotated.body.expires_at], ['own.test', SOON]);
  assert.equal((await ask(limited.key, 'DELETE', `/v1/api-keys/${equal.id}`)).status, 200);
});

test('a key for one domain manages that domain and sees no other', async () => {
  const { data } = (await ask(limited.key, 'GET', '/v1/domains')).body;
  assert.deepEqual(
    data.map(({ name }: Body) => name),
    ['own.test'],
  );
  for (const [method, path, body] of [
    ['GET', ''],
    ['PATCH', '', { tls: 'enforced' }],
    ['POST', '/verify'],
    ['DELETE', ''],
  ] as const) {
    const response = await ask(limited.key, method, `/v1/domains/${otherDomain}${path}`, body);
    assertFailure(response, 404, 'not_found');
    if (method === 'DELETE') continue;
    const own = await ask(limited.key, method, `/v1/domains/${ownDomain}${path}`, body);
    assert.equal(own.status, 200, own.text);
  }
  const added = await ask(limited.key, 'POST', '/v1/domains', { name: 'third.test' });
  assertFailure(added, 403, 'authorization_error', /own\.test/);
  const other = (await ask(service.testKey, 'GET', `/v1/domains/${otherDomain}`)).body;
  assert.deepEqual([other.status, other.tls], ['verified', 'opportunistic']);
});

test('a key for one domain reads only emails of that domain', async () => {
  const send = async (from: string, key = service.testKey): Promise<string> => {
    const response = await ask(key, 'POST', '/v1/emails', { ...EMAIL, from });
    assert.equal(response.status, 202, response.text);
    return response.body.id;
  };
  const [own, other] = [await send('a@own.test'), await send('a@other.test')];
  for (const path of ['', '/events', '/content']) {
    assert.equal((await ask(limited.key, 'GET', `/v1/emails/${own}${path}`)).status, 200);
    const response = await ask(limited.key, 'GET', `/v1/emails/${other}${path}`);
    assertFailure(response, 404, 'not_found');
  }
  const { data } = (await ask(limited.key, 'GET', '/v1/emails')).body;
  assert.deepEqual(
    data.map(({ id }: Body) => id),
    [own],
  );
  const asked = await ask(limited.key, 'GET', '/v1/emails?domain=other.test');
  assertFailure(asked, 403, 'authorization_error');
  assert.equal((await ask(limited.key, 'GET', '/v1/emails?domain=own.test')).status, 200);
});

test('a sending key restricted to a domain no longer reads emails that it sent from another', async () => {
  const { id, key } = await makeKey({ permission: 'sending_access' });
  const sent = await ask(key, 'POST', '/v1/emails', { ...EMAIL, from: 'a@other.test' });
  const path = `/v1/emails/${sent.body.id}`;
  assert.equal((await ask(key, 'GET', path)).status, 200);
  await ask(service.testKey, 'PATCH', `/v1/api-keys/${id}`, { domain: 'own.test' });
  assertFailure(await ask(key, 'GET', path), 404, 'not_found');
});

test('a key for one domain is refused for resources of all domains', async () => {
  const { id: webhook } = await made('/v1/webhooks', { url: 'http://127.0.0.1:9/' });
  const { body } = await service.request('GET', '/openapi.json');
  let tried = 0;
  for (const [template, methods] of Object.entries(body.paths as Record<string, object>)) {
    if (!/^\/v1\/(webhooks|suppressions)/.test(template)) continue;
    const path = template.replace('{id}', webhook).replaceAll(/\{\w+\}/g, UNKNOWN_ID);
    for (const method of Object.keys(methods)) {
      const response = await ask(limited.key, method.toUpperCase(), path);
      assertFailure(response, 403, 'authorization_error', /own|domain/);
      tried += 1;
    }
  }
  assert.ok(tried >= 17, String(tried));
  await service.otherProject();
  const { data } = (await ask(limited.key, 'GET', '/v1/projects')).body;
  assert.equal(data.length, 1);
  assert.equal((await ask(limited.key, 'GET', '/v1/api-keys/current')).status, 200);
});
