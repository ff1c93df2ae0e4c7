/**
 * Changes on condition (If-Match): of two who change one object, the one who has not seen the other change is refused,
 * for every kind of object that several people change. Templates: test/api/templates.test.ts.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
await memberOf(service, owner, 'developer');
const project: string = (await owner.get('/v1/session')).body.projects[0].id;

type Send = (method: string, path: string, options?: object) => Promise<ApiResponse>;
const byKey: Send = (method, path, options) => service.request(method, path, options);
const bySession: Send = (method, path, options) => owner.request(method, path, options);

async function made(path: string, body: object): Promise<{ id: string; etag: string }> {
  const response = await service.request('POST', path, { body });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

type Kind = {
  name: string;
  method?: 'PUT';
  send: Send;
  path: string;
  /** Two different changes. */
  changes: readonly [object, object];
  etag: () => Promise<string>;
};

const webhook = await made('/v1/webhooks', { url: 'https://hooks.acme.com/a' });
const domain = await made('/v1/domains', { name: 'shared.acme.test' });
const key = await made('/v1/api-keys', { name: 'Shared' });
const developer = async () =>
  (await owner.get('/v1/members')).body.data.find(({ role }: { role: string }) => role !== 'owner');
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const scheduled = await service.send({ scheduled_at: inDays(1) });
const settings = `/v1/operator/projects/${project}`;

const ofItself = (send: Send, path: string) => async (): Promise<string> => {
  const { headers, body } = await send('GET', path);
  assert.equal(headers.get('etag'), body.etag, path);
  return body.etag;
};
const ofList = (send: Send, list: string, id: string) => async (): Promise<string> => {
  const { body } = await send('GET', list);
  return body.data.find((one: { id: string }) => one.id === id).etag;
};

const { id: developerId } = await developer();
const KINDS: readonly Kind[] = [
  {
    name: 'a webhook',
    send: byKey,
    path: `/v1/webhooks/${webhook.id}`,
    changes: [{ url: 'https://hooks.acme.com/b' }, { events: ['email.bounced'] }],
    etag: ofItself(byKey, `/v1/webhooks/${webhook.id}`),
  },
  {
    name: 'a domain',
    send: byKey,
    path: `/v1/domains/${domain.id}`,
    changes: [{ tls: 'enforced' }, { tracking: { opens: true } }],
    etag: ofItself(byKey, `/v1/domains/${domain.id}`),
  },
  {
    name: 'an API key',
    send: byKey,
    path: `/v1/api-keys/${key.id}`,
    changes: [{ name: 'Other' }, { allowed_recipients: ['acme.com'] }],
    etag: ofList(byKey, '/v1/api-keys', key.id),
  },
  {
    name: 'a project',
    send: bySession,
    path: `/v1/projects/${project}`,
    changes: [{ name: 'One' }, { name: 'Two' }],
    etag: ofList(bySession, '/v1/projects', project),
  },
  {
    name: 'a member',
    send: bySession,
    path: `/v1/members/${developerId}`,
    changes: [{ role: 'viewer' }, { role: 'admin' }],
    etag: ofList(bySession, '/v1/members', developerId),
  },
  {
    name: 'the settings of a project',
    send: bySession,
    path: settings,
    changes: [{ domains_max: 7 }, { content: '7d' }],
    etag: ofItself(bySession, settings),
  },
  {
    name: 'a scheduled email',
    send: byKey,
    path: `/v1/emails/${scheduled}`,
    changes: [{ scheduled_at: inDays(2) }, { scheduled_at: inDays(3) }],
    etag: ofItself(byKey, `/v1/emails/${scheduled}`),
  },
  {
    name: 'the host that receives bounces',
    method: 'PUT',
    send: bySession,
    path: '/v1/operator/return-path-host',
    changes: [{ name: 'one.acme.test' }, { name: 'two.acme.test' }],
    etag: ofItself(bySession, '/v1/operator/return-path-host'),
  },
];

for (const { name, method = 'PATCH', send, path, changes, etag } of KINDS) {
  test(`of two who change ${name} at once, the second is refused with If-Match, and loses nothing unseen`, async () => {
    const seen = await etag();
    assert.match(seen, /^"[\w-]{22}"$/);
    const change = (body: object, tag: string) =>
      send(method, path, { body, headers: { 'if-match': tag } });
    const both = await Promise.all(changes.map((body) => change(body, seen)));
    const [changed, refused] = both.toSorted((one, other) => one.status - other.status);
    assert.equal(changed!.status, 200, changed!.text);
    assert.equal(changed!.headers.get('etag'), changed!.body.etag);
    assert.notEqual(changed!.body.etag, seen);
    assertFailure(refused!, 412, 'precondition_failed', /read it again/i);
    assert.equal(await etag(), changed!.body.etag);

    // A request with the current tag, or without a condition, changes it.
    const next = changes[both.indexOf(refused!)]!;
    assert.equal((await change(next, changed!.body.etag)).status, 200);
    assert.equal((await send(method, path, { body: changes[0] })).status, 200);
    if (!/[\w-]{36}$/.test(path)) return;
    const unknown = path.replace(/[\w-]{36}$/, UNKNOWN_ID);
    const missing = await send('PATCH', unknown, { body: next, headers: { 'if-match': seen } });
    assertFailure(missing, 404, 'not_found');
  });
}

/** Changes by PUT or PATCH that need no condition, and why. */
const WITHOUT_CONDITION = new Map([
  [
    'PUT /v1/snoozes/{id}',
    'replaces one time, which every member sees with the name of its author',
  ],
]);

test('every change of an object has a condition, or a reason to have none', async () => {
  const { body } = await service.request('GET', '/openapi.json', { key: null });
  type Operation = { parameters?: { name: string }[]; responses: Record<string, unknown> };
  const paths = Object.entries<Record<string, Operation>>(body.paths);
  const changes = paths.flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => method === 'put' || method === 'patch')
      .map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  assert.ok(changes.length > 10, `${changes.length} changes were found`);
  const unconditional = changes.filter(({ operation: { parameters = [], responses } }) => {
    const isConditional = parameters.some(({ name }) => name === 'if-match');
    assert.equal('412' in responses, isConditional);
    return !isConditional;
  });
  assert.deepEqual(
    unconditional.map(({ name }) => name),
    [...WITHOUT_CONDITION.keys()],
  );
});

test('a suppression is removed only as its remover has read it', async () => {
  const path = '/v1/suppressions/replaced@acme.com';
  const suppress = (reason: string) => {
    const body = { address: 'replaced@acme.com', reason };
    return service.request('POST', '/v1/suppressions', { body });
  };
  const { body: first } = await suppress('hard_bounce');
  assert.equal(await ofItself(byKey, path)(), first.etag);
  await service.request('DELETE', path);
  await suppress('complaint');
  const remove = (tag: string) => service.request('DELETE', path, { headers: { 'if-match': tag } });
  assertFailure(await remove(first.etag), 412, 'precondition_failed');
  const { body: list } = await service.request('GET', '/v1/suppressions?address=replaced');
  assert.equal(list.data[0].reason, 'complaint');
  assert.equal((await remove(list.data[0].etag)).status, 200);
  assertFailure(await remove(list.data[0].etag), 404, 'not_found');
});

test('what has changed meanwhile is not deleted with If-Match', async () => {
  for (const { name, send, path, etag } of KINDS) {
    if (/project|email|host/.test(name)) continue;
    const remove = (tag: string) => send('DELETE', path, { headers: { 'if-match': tag } });
    assertFailure(await remove('"of-an-earlier-state"'), 412, 'precondition_failed', /has changed/);
    const removed = await remove(await etag());
    assert.equal(removed.status, 200, `${name}: ${removed.text}`);
  }
});

test('checks of DNS, failures and uses leave the tag as it is', async () => {
  const { id, etag } = await made('/v1/domains', { name: 'checked.acme.test' });
  const verified = await service.request('POST', `/v1/domains/${id}/verify`, { body: {} });
  assert.equal(verified.status, 200, verified.text);
  assert.equal(verified.body.etag, etag);
  const rotated = await service.request('POST', `/v1/domains/${id}/rotate-dkim`, { body: {} });
  assert.notEqual(rotated.body.etag, etag);
});

test('sent mail leaves the tag of the settings as it is', async () => {
  const before = await ofItself(bySession, settings)();
  await service.send();
  assert.equal(await ofItself(bySession, settings)(), before);
});

test('a template is published only as its member has seen it', async () => {
  const { id, etag } = await made('/v1/templates', { name: 'Seen', subject: 'One', text: 'One' });
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Two' } });
  const publish = (tag: string) =>
    service.request('POST', `/v1/templates/${id}/publish`, { headers: { 'if-match': tag } });
  assertFailure(await publish(etag), 412, 'precondition_failed');
  const { body } = await service.request('GET', `/v1/templates/${id}`);
  assert.equal((await publish(body.etag)).status, 200);
  const stale = { headers: { 'if-match': body.etag } };
  const refused = await service.request('DELETE', `/v1/templates/${id}`, stale);
  assertFailure(refused, 412, 'precondition_failed');
});
