/** API keys: each key sees one project and environment. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { assertFailure, EMAIL, rawResponse, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const env = { LETTERHAUS_LIMIT_SENDING: '1000/60', LETTERHAUS_LIMIT_AUTH: '10000/60' };
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());

type Body = ApiResponse['body'];

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The check digits at the end of a key, computed here independently of the service. */
function checksumOf(start: string): string {
  let text = '';
  for (let rest = crc32(start); text.length < 6; rest = Math.floor(rest / 62)) {
    text = BASE62[rest % 62] + text;
  }
  return text;
}

async function makeKey(rights: object = {}, by = service.testKey): Promise<Body> {
  const body = { name: 'made by a test', ...rights };
  const response = await service.request('POST', '/v1/api-keys', { key: by, body });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const get = (path: string, key: string) => service.request('GET', path, { key });
const send = (key: string, change: object = {}) =>
  service.request('POST', '/v1/emails', { key, body: { ...EMAIL, ...change } });

test('a key begins with its environment and ends with a checksum', async () => {
  const live = await service.liveKey();
  for (const [key, marker] of [
    [service.testKey, 'test'],
    [(await makeKey()).key, 'test'],
    [live, 'live'],
    [(await makeKey({}, live)).key, 'live'],
  ]) {
    assert.match(key, new RegExp(`^lh_${marker}_[0-9A-Za-z]{38}$`));
    assert.equal(key.slice(-6), checksumOf(key.slice(0, -6)));
  }
});

test('a key is stored as a hash, and shown once', async () => {
  const { key, ...made } = await makeKey({ name: 'Once' });
  const { id, hint, created_at, etag, ...rest } = made;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  assert.ok(key.startsWith(hint.replace('…', '')) && hint.length < 20);
  assert.deepEqual(rest, {
    object: 'api_key',
    name: 'Once',
    environment: 'test',
    permission: 'full_access',
    domain: null,
    expires_at: null,
    last_used_at: null,
    allowed_networks: null,
    allowed_senders: null,
    allowed_recipients: null,
    warnings: [],
  });
  const list = await get('/v1/api-keys', service.testKey);
  assert.deepEqual(list.body.data[0], made);
  assert.ok(!list.text.includes(key));
  const [row] = await service.sql(
    'select sha256, api_keys::text as all from api_keys where id = $1',
    [id],
  );
  assert.deepEqual(row.sha256, createHash('sha256').update(key).digest());
  assert.ok(!row.all.includes(key.slice(12)));
});

test('a key with a wrong checksum, environment or character gets 401', async () => {
  const key = service.testKey;
  const last = key.at(-1) === 'a' ? 'b' : 'a';
  const unknown = `lh_test_${'0'.repeat(32)}`;
  for (const wrong of [
    key.slice(0, -1) + last,
    key.slice(0, -1),
    `${key}0`,
    key.replace('_test_', '_live_'),
    key.replace('lh_', 'pk_'),
    key.toUpperCase(),
    unknown + checksumOf(unknown),
  ]) {
    assertFailure(await get('/v1/emails', wrong), 401, 'authentication_error');
  }
  assert.equal((await get('/v1/emails', key)).status, 200);
});

test('problems of a new key are reported by field', async () => {
  for (const [body, message] of [
    [{}, /^name: .*required/],
    [{ name: '' }, /^name: /],
    [{ name: 'a\nb' }, /^name: /],
    [{ name: 'x'.repeat(101) }, /^name: .*100/],
    [{ name: 'a', permission: 'root' }, /^permission: .*full_access.*sending_access/],
    [{ name: 'a', domain: 'not a domain' }, /^domain: /],
    [{ name: 'a', expires_at: 'soon' }, /^expires_at: /],
    [{ name: 'a', environment: 'live' }, /^environment: /],
  ] as const) {
    const response = await service.request('POST', '/v1/api-keys', { body });
    assertFailure(response, 422, 'validation_error', message);
  }
});

test('GET /v1/api-keys/current returns project, environment and permission of the key', async () => {
  const { key, id } = await makeKey({ name: 'Me', permission: 'sending_access' });
  const { status, body } = await get('/v1/api-keys/current', key);
  assert.equal(status, 200);
  assert.deepEqual(
    [body.id, body.name, body.environment, body.permission, body.domain],
    [id, 'Me', 'test', 'sending_access', null],
  );
  const { data } = (await get('/v1/projects', service.testKey)).body;
  assert.deepEqual(body.project, { id: data[0].id, name: data[0].name });
  assert.ok(!('key' in body));
  const live = await get('/v1/api-keys/current', await service.liveKey());
  assert.deepEqual([live.body.environment, live.body.permission], ['live', 'full_access']);
});

test('a sending key sends, and reads the emails that it sent', async () => {
  const [one, other] = [
    await makeKey({ permission: 'sending_access' }),
    await makeKey({ permission: 'sending_access' }),
  ];
  const { body: sent } = await send(one.key);
  for (const path of ['', '/events', '/content']) {
    assert.equal((await get(`/v1/emails/${sent.id}${path}`, one.key)).status, 200);
    assertFailure(await get(`/v1/emails/${sent.id}${path}`, other.key), 404, 'not_found');
    assert.equal((await get(`/v1/emails/${sent.id}${path}`, service.testKey)).status, 200);
  }
  assert.deepEqual(
    (await get('/v1/emails', one.key)).body.data.map(({ id }: Body) => id),
    [sent.id],
  );
  assert.deepEqual((await get('/v1/emails', other.key)).body.data, []);
});

test('a sending key is refused every other operation', async () => {
  const { key } = await makeKey({ permission: 'sending_access' });
  const allowed = /^\/v1\/emails|^\/v1\/api-keys\/current$|^\/[^v]/;
  let tried = 0;
  for (const { method, path } of await operations()) {
    if (allowed.test(path)) continue;
    const response = await service.request(method, path, { key });
    assertFailure(response, 403, 'authorization_error');
    tried += 1;
  }
  assert.ok(tried >= 19, String(tried));
});

/** Every operation of the OpenAPI document that needs a credential, on an id that nothing has. */
async function operations(): Promise<{ method: string; path: string; template: string }[]> {
  const { body } = await service.request('GET', '/openapi.json');
  const paths = Object.entries(
    body.paths as Record<string, Record<string, { security?: object[] }>>,
  );
  return paths.flatMap(([template, methods]) =>
    Object.keys(methods)
      .filter((method) => methods[method]!.security?.length !== 0)
      .map((method) => ({
        method: method.toUpperCase(),
        path: template.replaceAll(/\{\w+\}/g, UNKNOWN_ID),
        template,
      })),
  );
}

test('a key for one domain sends from that domain only', async () => {
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'only.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  for (const permission of ['sending_access', 'full_access']) {
    const { key, domain: limitedTo } = await makeKey({ permission, domain: 'Only.TEST' });
    assert.equal(limitedTo, 'only.test');
    assert.equal((await send(key, { from: 'a@only.test' })).status, 202);
    assertFailure(await send(key), 403, 'authorization_error', /only\.test/);
    assertFailure(await send(key, { from: 'a@sub.only.test' }), 403, 'authorization_error');
  }
});

test('a key stops working when it expires, by the clock of the database', async () => {
  const [{ now }] = await service.sql('select app_now() as now');
  const expires_at = new Date(now.getTime() + 600_000).toISOString();
  const { key, expires_at: shown } = await makeKey({ expires_at });
  assert.equal(shown, expires_at);
  assert.equal((await send(key)).status, 202);
  await service.clock.advance({ minutes: 9 });
  assert.equal((await send(key)).status, 202);
  await service.clock.advance({ minutes: 2 });
  assertFailure(await send(key), 401, 'authentication_error');
});

test('a rotated key gets a successor with its limits and stays valid for the overlap', async () => {
  const rights = { name: 'shop', permission: 'sending_access' };
  const { key: old, id, ...before } = await makeKey(rights);
  const rotate = (body?: object) =>
    service.request('POST', `/v1/api-keys/${id}/rotate`, body ? { body } : {});
  const { status, body } = await rotate({ expires_in: 3_600 });
  assert.equal(status, 201);
  const { key: next, id: nextId, replaces, hint, created_at: made, etag, ...limits } = body;
  assert.ok(next !== old && nextId !== id && next.startsWith(hint.replace('…', '')));
  assert.match(made, TIME);
  const { hint: _, created_at: __, etag: ownTag, ...unchanged } = before;
  assert.notEqual(etag, ownTag);
  assert.deepEqual(limits, unchanged);
  assert.equal(replaces.id, id);
  const [{ ends }] = await service.sql(
    `select expires_at > app_now() + interval '59 min' as ends from api_keys where id = $1`,
    [id],
  );
  assert.equal(ends, true);
  assert.deepEqual([(await send(old)).status, (await send(next)).status], [202, 202]);
  const again = await rotate();
  assert.equal(again.body.replaces.expires_at, replaces.expires_at, 'never later than before');
  await service.clock.advance({ minutes: 61 });
  assertFailure(await send(old), 401, 'authentication_error');
  assert.equal((await send(next)).status, 202);
  assertFailure(await rotate(), 409, 'conflict', /make a new one/);
});

test('a key can rotate itself; with expires_in 0 it ends at once on every worker', async () => {
  const { key: old, id } = await makeKey();
  const path = `/v1/api-keys/${id}/rotate`;
  const body = { expires_in: 0 };
  const { body: rotated } = await service.request('POST', path, { key: old, body });
  assert.equal((await get('/v1/emails', rotated.key)).status, 200);
  for (const response of await askOften(old)) assertFailure(response, 401, 'authentication_error');
  for (const expires_in of [-1, 0.5, 30 * 86_400 + 1, 'soon']) {
    const wrong = await service.request('POST', path, { body: { expires_in } });
    assertFailure(wrong, 422, 'validation_error', /^expires_in: /);
  }
});

test('two concurrent rotations make two keys and end the old one once', async () => {
  const { id } = await makeKey({ name: 'twice' });
  const path = `/v1/api-keys/${id}/rotate`;
  const responses = await Promise.all([1, 2, 3].map(() => service.request('POST', path)));
  assert.deepEqual(
    responses.map(({ status }) => status),
    [201, 201, 201],
  );
  assert.equal(new Set(responses.map(({ body }) => body.key)).size, 3);
  assert.equal(new Set(responses.map(({ body }) => body.replaces.id)).size, 1);
});

/** Connections of their own, so that every worker of the service is asked. */
function askOften(key: string): Promise<ApiResponse[]> {
  const head =
    `GET /v1/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
    `Authorization: Bearer ${key}\r\n\r\n`;
  return Promise.all(Array.from({ length: 12 }, () => rawResponse(service.url, head)));
}

test('a revoked key is refused from the next request on, for sending and for reading', async () => {
  const { key, id } = await makeKey();
  for (const response of await askOften(key)) assert.equal(response.status, 200);
  const revoked = await service.request('DELETE', `/v1/api-keys/${id}`);
  assert.deepEqual(revoked.body, { object: 'api_key', id, deleted: true });
  const responses = await Promise.all(Array.from({ length: 12 }, () => send(key)));
  for (const response of [...responses, ...(await askOften(key))]) {
    assertFailure(response, 401, 'authentication_error');
  }
  const again = await service.request('DELETE', `/v1/api-keys/${id}`);
  assertFailure(again, 404, 'not_found');
  const { data } = (await get('/v1/api-keys', service.testKey)).body;
  assert.ok(!data.some((one: Body) => one.id === id));
});

test('a key can revoke itself', async () => {
  const { key, id } = await makeKey();
  assert.equal((await service.request('DELETE', `/v1/api-keys/${id}`, { key })).status, 200);
  assertFailure(await send(key), 401, 'authentication_error');
});

test('a change of a key changes only the given fields, from the next request on', async () => {
  const { key, id } = await makeKey({ name: 'Before', domain: 'acme.test' });
  assert.equal((await get('/v1/domains', key)).status, 200);
  const patch = async (body: object) =>
    (await service.request('PATCH', `/v1/api-keys/${id}`, { body })).body;
  const renamed = await patch({ name: 'After' });
  assert.deepEqual(
    [renamed.name, renamed.permission, renamed.domain],
    ['After', 'full_access', 'acme.test'],
  );
  const reduced = await patch({ permission: 'sending_access', domain: null });
  assert.deepEqual([reduced.name, reduced.domain], ['After', null]);
  for (const response of await Promise.all([1, 2, 3, 4].map(() => get('/v1/domains', key)))) {
    assertFailure(response, 403, 'authorization_error');
  }
});

test('the last use of a key is recorded to the minute', async () => {
  const { key, id } = await makeKey();
  await send(key);
  const lastUse = async () => {
    const { data } = (await get('/v1/api-keys?limit=100', service.testKey)).body;
    return data.find((one: Body) => one.id === id).last_used_at as string | null;
  };
  await service.stop();
  await service.restart();
  assert.match((await lastUse()) ?? '', /:00\.000Z$/);
});

test('projects of the organization are listed with their fields', async () => {
  await service.cliJson('projects', 'create', 'Second');
  const organizationId = UNKNOWN_ID;
  await service.sql(`insert into organizations values ($1, 'Other', now())`, [organizationId]);
  const projectId = UNKNOWN_ID.replace(/a$/, 'b');
  await service.sql(
    `insert into projects (id, organization_id, name, created_at) values ($1, $2, 'Alien', now())`,
    [projectId, organizationId],
  );
  const alien = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    projectId,
  );
  const ours = (await get('/v1/projects', service.testKey)).body;
  const names = ours.data.map(({ name }: Body) => name);
  assert.ok(names.includes('Second') && !names.includes('Alien'));
  for (const { id, created_at, name, etag, ...rest } of ours.data) {
    assert.match(etag, /^"[\w-]{22}"$/);
    assert.match(id, UUID_V7);
    assert.match(created_at, TIME);
    assert.equal(typeof name, 'string');
    assert.deepEqual(rest, { object: 'project', warnings: [] });
  }
  const theirs = (await get('/v1/projects', alien.key)).body;
  assert.deepEqual(
    theirs.data.map(({ id }: Body) => id),
    [projectId],
  );
});
