/** Isolation: objects of another project or environment do not exist for a caller. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const made = async (path: string, body: object): Promise<Body> => {
  const response = await service.request('POST', path, { body });
  assert.equal(response.status, 201, response.text);
  return response.body;
};

/** A resource of each kind, in the test environment of the first project. */
async function makeResources(): Promise<Record<string, Record<string, string>>> {
  await using receiver = await startReceiver();
  const { id: webhook } = await made('/v1/webhooks', { url: receiver.url });
  const { id: domain } = await made('/v1/domains', { name: 'owned.test' });
  const { id: key } = await made('/v1/api-keys', { name: 'owned' });
  const { id: template } = await made('/v1/templates', { name: 'Owned', subject: 'a', text: 'b' });
  const email = await service.send();
  await service.waitForStatus(email, 'delivered');
  const path = `/v1/webhooks/${webhook}/deliveries?status=delivered`;
  const delivery = await waitFor(
    async () => (await service.request('GET', path)).body.data[0]?.id as string | undefined,
    { what: 'a delivery' },
  );
  const range = BODIES['POST /v1/webhooks/{id}/replay']!;
  const { body } = await service.request('POST', `/v1/webhooks/${webhook}/replay`, { body: range });
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const dropped = { email_id: await service.send({ scheduled_at }) };
  const drop = await service.request('POST', '/v1/queue/drop', { body: dropped });
  assert.equal(drop.status, 202, drop.text);
  const request = await waitFor(
    async () =>
      (await service.request('GET', '/v1/requests')).body.data[0]?.id as string | undefined,
    { what: 'a request in the API log' },
  );
  return {
    requests: { id: request },
    queue: { id: drop.body.id },
    emails: { id: email },
    domains: { id: domain },
    'api-keys': { id: key },
    templates: { id: template, version: '1' },
    webhooks: { id: webhook, delivery_id: delivery, replay_id: body.id },
  };
}

/** Bodies that are valid, so that the id decides about the request. */
const BODIES: Record<string, object> = {
  'PATCH /v1/emails/{id}': { scheduled_at: '2026-01-01T00:00:00Z' },
  'PATCH /v1/templates/{id}': { subject: 'changed' },
  'PATCH /v1/webhooks/{id}': { status: 'disabled' },
  'PATCH /v1/domains/{id}': { tls: 'enforced' },
  'PATCH /v1/api-keys/{id}': { permission: 'sending_access' },
  'POST /v1/webhooks/{id}/deliveries/replay': { ids: [UNKNOWN_ID] },
  'POST /v1/webhooks/{id}/replay': {
    since: '2026-01-01T00:00:00Z',
    until: '2036-01-01T00:00:00Z',
  },
};

const resources = await makeResources();
const other = await service.otherProject();
const strangers = {
  'the live environment': await service.liveKey(),
  'another project': other.testKey,
  'its live environment': await other.liveKey(),
};

/**
 * Every operation of the OpenAPI document on one thing that takes a key. What only sessions may do is about
 * the organization of the member, in tests of its own.
 */
async function operations(): Promise<[method: string, template: string][]> {
  const { body } = await service.request('GET', '/openapi.json');
  return Object.entries(body.paths as Record<string, Record<string, { security?: object[] }>>)
    .filter(([template]) => template.includes('{id}'))
    .flatMap(([template, methods]) =>
      Object.entries(methods)
        .filter(([, { security }]) => security === undefined)
        .map(([method]): [string, string] => [method.toUpperCase(), template]),
    );
}

function pathOf(template: string, ids: Record<string, string>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? UNKNOWN_ID);
}

const owned = (template: string) => resources[template.split('/')[2]!] ?? {};

/** A response without the fields that differ from request to request. */
function comparable({ status, headers, text, body }: ApiResponse): unknown {
  const changing = ['date', 'x-request-id', 'ratelimit-reset', 'reset'];
  const names = [...headers.keys()].filter((name) => !changing.includes(name));
  return {
    status,
    text: text.replace(body.error.request_id, ''),
    headers: names.map((name) => [name, headers.get(name)]),
  };
}

const all = await operations();

test('every kind of resource is tested', () => {
  const kinds = new Set(all.map(([, template]) => template.split('/')[2]));
  assert.deepEqual(kinds, new Set(Object.keys(resources)));
});

for (const [method, template] of all) {
  test(`${method} ${template} does not find resources of others`, async () => {
    const body = BODIES[`${method} ${template}`];
    const ask = (key: string, ids: Record<string, string>) =>
      service.request(method, pathOf(template, ids), { key, ...(body && { body }) });
    for (const [who, key] of Object.entries(strangers)) {
      const foreign = await ask(key, owned(template));
      assertFailure(foreign, 404, 'not_found');
      assert.deepEqual(comparable(foreign), comparable(await ask(key, {})), who);
    }
  });
}

test('lists do not contain resources of others', async () => {
  for (const key of Object.values(strangers)) {
    for (const kind of ['emails', 'domains', 'templates', 'webhooks']) {
      const { body } = await service.request('GET', `/v1/${kind}`, { key });
      assert.deepEqual(body.data, [], kind);
    }
    const { body } = await service.request('GET', '/v1/api-keys', { key });
    assert.equal(body.data.length, 1);
    const everything = `to=delivered@simulator.test&domain=acme.test&status=delivered`;
    const searched = await service.request('GET', `/v1/emails?${everything}`, { key });
    assert.deepEqual(searched.body.data, []);
    const cursor = await service.request('GET', `/v1/emails?before=${resources['emails']!['id']}`, {
      key,
    });
    assert.deepEqual(cursor.body.data, []);
  }
});

test('a domain that another project has verified cannot be sent from', async () => {
  for (const key of Object.values(strangers)) {
    const body = { from: 'a@acme.test', to: 'b@simulator.test', subject: 'Hi', text: 'Hi' };
    const response = await service.request('POST', '/v1/emails', { key, body });
    assertFailure(response, 403, 'domain_not_verified');
  }
});

test('all resources are unchanged after these requests', async () => {
  for (const [kind, { id }] of Object.entries(resources)) {
    // The drop has no page of its own.
    if (kind === 'api-keys' || kind === 'queue') continue;
    assert.equal((await service.request('GET', `/v1/${kind}/${id}`)).status, 200, kind);
  }
  const webhook = await service.request('GET', `/v1/webhooks/${resources['webhooks']!['id']}`);
  assert.equal(webhook.body.status, 'enabled');
  const { body } = await service.request('GET', '/v1/api-keys');
  const key = body.data.find(({ id }: Body) => id === resources['api-keys']!['id']);
  assert.equal(key.permission, 'full_access');
});
