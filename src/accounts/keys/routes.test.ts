/**
 * The routes of API keys on a real database without a whole service. test/api/limited-keys.test.ts has keys with a
 * domain or an expiry.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { stubHttp } from '../../../test/support/http.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import type { Permission } from '../../core/scope.ts';
import { createKey, findKey } from './key-store.ts';
import { createOrganization, createProject } from '../projects/project-store.ts';

const database = await testDatabase();
const { db } = database;
const http = await stubHttp({ services: { db } });
after(async () => {
  await http[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

type Json = Record<string, unknown>;
type Client = Awaited<ReturnType<typeof newClient>>;

async function newClient(permission: Permission = 'full_access') {
  const organization = await createOrganization(db, 'Acme');
  const project = await createProject(db, organization.id, 'Shop');
  const scope = { projectId: project.id, environment: 'test' as const };
  const rights = { name: 'first', permission, domain: null, expiresAt: null };
  const { key, text } = await createKey(db, scope, rights);
  return { organization, project, scope, key, call: callsWith(text) };
}

function callsWith(key: string) {
  return async (
    method: string,
    path: string,
    body?: object,
  ): Promise<Json & { status: number }> => {
    const response = await fetch(http.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { ...((await response.json()) as Json), status: response.status };
  };
}

async function listedNames({ call }: Client): Promise<unknown[]> {
  const { data } = await call('GET', '/v1/api-keys');
  return (data as Json[]).map((key) => key['name']);
}

test('a new key works at once, and its text is returned only once', async () => {
  const client = await newClient();
  const made = await client.call('POST', '/v1/api-keys', { name: 'ci' });
  assert.equal(made.status, 201);
  assert.match(String(made['key']), /^lh_test_[0-9A-Za-z]{38}$/);
  const call = callsWith(String(made['key']));
  const current = await call('GET', '/v1/api-keys/current');
  assert.equal(current['id'], made['id']);
  assert.deepEqual(current['project'], { id: client.project.id, name: 'Shop' });
  assert.equal(current['organization_id'], client.organization.id);
  assert.equal(current['environment'], 'test');
  const list = await client.call('GET', '/v1/api-keys');
  assert.ok(!JSON.stringify(list).includes(String(made['key'])));
  assert.deepEqual(await listedNames(client), ['ci', 'first']);
});

test('a key has its rights, and its domain as A-labels', async () => {
  const client = await newClient();
  const expires_at = '2030-01-01T00:00:00.000Z';
  const rights = { permission: 'sending_access', domain: 'BÜCHER.example', expires_at };
  const made = await client.call('POST', '/v1/api-keys', { name: 'shop', ...rights });
  assert.equal(made['permission'], 'sending_access');
  assert.equal(made['domain'], 'xn--bcher-kva.example');
  assert.equal(made['expires_at'], expires_at);
  const call = callsWith(String(made['key']));
  assert.equal((await call('POST', '/v1/api-keys', { name: 'more' })).status, 403);
});

test('a revoked key stops working at the next request', async () => {
  const client = await newClient();
  const made = await client.call('POST', '/v1/api-keys', { name: 'ci' });
  const call = callsWith(String(made['key']));
  assert.equal((await call('GET', '/v1/api-keys/current')).status, 200);
  const revoked = await client.call('DELETE', `/v1/api-keys/${String(made['id'])}`);
  assert.deepEqual(revoked, { object: 'api_key', id: made['id'], deleted: true, status: 200 });
  assert.equal((await call('GET', '/v1/api-keys/current')).status, 401);
  assert.deepEqual(await listedNames(client), ['first']);
});

test('a key can be changed, and removed rights end at once', async () => {
  const client = await newClient();
  const made = await client.call('POST', '/v1/api-keys', { name: 'ci', domain: 'acme.com' });
  const call = callsWith(String(made['key']));
  assert.equal((await call('GET', '/v1/projects')).status, 200);
  const path = `/v1/api-keys/${String(made['id'])}`;
  const changed = await client.call('PATCH', path, { permission: 'sending_access' });
  assert.equal(changed['permission'], 'sending_access');
  assert.equal(changed['name'], 'ci');
  assert.equal(changed['domain'], 'acme.com');
  assert.equal((await call('GET', '/v1/projects')).status, 403);
  assert.equal((await client.call('PATCH', path, { domain: null }))['domain'], null);
});

test('an expired key gets the same error as an unknown one', async () => {
  const client = await newClient();
  const past = { name: 'old', expires_at: '2020-01-01T00:00:00Z' };
  const made = await client.call('POST', '/v1/api-keys', past);
  const call = callsWith(String(made['key']));
  assert.equal((await call('GET', '/v1/api-keys/current')).status, 401);
});

test('keys of another project are not found', async () => {
  const [one, other] = [await newClient(), await newClient()];
  const path = `/v1/api-keys/${one.key.id}`;
  assert.equal((await other.call('PATCH', path, { name: 'mine' })).status, 404);
  assert.equal((await other.call('DELETE', path)).status, 404);
  assert.equal((await findKey(db, one.scope, one.key.id))?.name, 'first');
  assert.deepEqual(await listedNames(other), ['first']);
});

test('invalid fields of a key are refused by name', async () => {
  const client = await newClient();
  const cases: [object, RegExp][] = [
    [{}, /^name: is required/],
    [{ name: '' }, /^name: must have at least 1 character/],
    [{ name: 'a\nb' }, /^name: must not have control characters/],
    [{ name: 'a', permission: 'admin' }, /^permission: must be one of/],
    [{ name: 'a', domain: 'not a domain' }, /^domain: is not a domain name/],
    [{ name: 'a', expires_at: 'soon' }, /^expires_at: must be a time/],
    [{ name: 'a', environment: 'live' }, /^environment: is not a field/],
  ];
  for (const [body, sentence] of cases) {
    const { status, error } = await client.call('POST', '/v1/api-keys', body);
    assert.equal(status, 422);
    assert.match((error as { message: string }).message, sentence);
  }
});

test('the projects of the organization are listed', async () => {
  const client = await newClient();
  const { data, has_more } = await client.call('GET', '/v1/projects');
  const { id, createdAt } = client.project;
  const created_at = createdAt.toISOString();
  const [{ etag }] = data as [{ etag: string }];
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.deepEqual(data, [{ object: 'project', id, name: 'Shop', created_at, warnings: [], etag }]);
  assert.equal(has_more, false);
});
