/** Webhooks: managing endpoints, and the requests that they receive. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { type Receiver, startReceiver, verified } from '../support/webhook-receiver.ts';

const service = await sharedService();

const UNKNOWN_ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';

type Body = ApiResponse['body'];

async function register(url: string, body: object = {}): Promise<Body> {
  const response = await service.request('POST', '/v1/webhooks', { body: { url, ...body } });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

/** Removed again, so that tests in one project do not receive each other's events. */
async function registered(url: string, body: object = {}): Promise<Webhook> {
  const { id, signing_secret } = await register(url, body);
  return {
    id,
    signing_secret,
    async [Symbol.asyncDispose]() {
      await service.request('DELETE', `/v1/webhooks/${id}`);
    },
  };
}

type Webhook = AsyncDisposable & { id: string; signing_secret: string };

const get = async (path: string) => (await service.request('GET', path)).body;

function waitForDelivery(webhookId: string, eventId: string, status: string): Promise<Body> {
  const path = `/v1/webhooks/${webhookId}/deliveries/${eventId}`;
  const look = async () => {
    const delivery = await get(path);
    return delivery.status === status && delivery;
  };
  return waitFor(look, { what: `the delivery to be ${status}` });
}

const receivedOf = (receiver: Receiver, emailId: string) =>
  receiver.received.filter(({ event }) => event.data.email_id === emailId);

test('events of an email are sent signed and with the documented fields', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url);
  const tags = [{ name: 'kind', value: 'welcome' }];
  const id = await service.send({ to: 'delivered@simulator.test', tags, metadata: { user: '7' } });
  await waitFor(() => receivedOf(receiver, id).length === 2, { what: 'both events' });
  const events = receivedOf(receiver, id);
  const byType = new Map(events.map(({ event }) => [event.type, event]));
  assert.deepEqual([...byType.keys()].toSorted(), ['email.delivered', 'email.queued']);
  for (const received of events) {
    assert.deepEqual(verified(webhook.signing_secret, received), received.event);
    assert.deepEqual(Object.keys(received.event), ['type', 'created_at', 'data']);
  }
  const { data } = byType.get('email.delivered')!;
  assert.equal(data.recipient, 'delivered@simulator.test');
  assert.equal(data.status, 'delivered');
  assert.equal(data.subject, 'Hello');
  assert.deepEqual(data.tags, tags);
  assert.deepEqual(data.metadata, { user: '7' });
  assert.equal(data.message_id, (await service.email(id)).message_id);
});

test('a bounce is sent with its reason, and so is the suppression that it caused', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url, {
    events: ['email.bounced', 'suppression.added'],
  });
  const id = await service.send({ to: 'bounced+hooks@simulator.test' });
  const received = await receiver.waitForCount(2);
  const types = received.map(({ event }) => event.type).toSorted();
  assert.deepEqual(types, ['email.bounced', 'suppression.added']);
  const bounced = receivedOf(receiver, id)[0]!.event.data;
  assert.equal(bounced.smtp.code, 550);
  assert.ok(bounced.reason.category);
  for (const one of received) verified(webhook.signing_secret, one);
});

test('a webhook has its fields, and its secret is shown once', async () => {
  await using receiver = await startReceiver();
  const created = await register(receiver.url, { events: ['email.bounced', 'email.bounced'] });
  const { signing_secret: secret, ...webhook } = created;
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.match(webhook.created_at, /^\d{4}-.*\.\d{3}Z$/);
  assert.deepEqual(webhook, {
    object: 'webhook',
    id: webhook.id,
    url: receiver.url,
    events: ['email.bounced'],
    status: 'enabled',
    disabled_reason: null,
    failing_since: null,
    failures: 0,
    last_failure: null,
    suspended_until: null,
    created_at: webhook.created_at,
    etag: webhook.etag,
  });
  assert.match(webhook.etag, /^"[\w-]{22}"$/);
  assert.deepEqual(await get(`/v1/webhooks/${webhook.id}`), webhook);
  const list = await get('/v1/webhooks');
  assert.deepEqual(list, { object: 'list', data: [webhook], has_more: false });
  const gone = await service.request('DELETE', `/v1/webhooks/${webhook.id}`);
  assert.deepEqual(gone.body, { object: 'webhook', id: webhook.id, deleted: true });
  assert.equal((await service.request('GET', `/v1/webhooks/${webhook.id}`)).status, 404);
});

test('lists are paged', async () => {
  await using receiver = await startReceiver();
  const webhooks = [await register(receiver.url), await register(receiver.url)];
  const first = await get('/v1/webhooks?limit=1');
  assert.deepEqual([first.data[0].id, first.has_more], [webhooks[1].id, true]);
  const second = await get(`/v1/webhooks?limit=1&after=${first.data[0].id}`);
  assert.deepEqual([second.data[0].id, second.has_more], [webhooks[0].id, false]);
  for (const { id } of webhooks) await service.request('DELETE', `/v1/webhooks/${id}`);
});

test('problems of a request are reported by field', async () => {
  const post = (body: unknown) => service.request('POST', '/v1/webhooks', { body });
  const wrong: [unknown, RegExp][] = [
    [{}, /^url: is required/],
    [{ url: 'acme' }, /^url: not a URL/],
    [{ url: 'ftp://acme.test/' }, /^url: .*https/],
    [{ url: 'https://user:word@acme.test/' }, /^url: .*user name or password/],
    [{ url: 'https://acme.test/', events: [] }, /^events: /],
    [{ url: 'https://acme.test/', events: ['email.sneezed'] }, /^events\[0\]: /],
    [{ url: 'https://acme.test/', secret: 'mine' }, /^secret: /],
  ];
  for (const [body, message] of wrong) {
    const { status, body: response } = await post(body);
    assert.equal(status, 422, JSON.stringify(body));
    assert.equal(response.error.code, 'validation_error');
    assert.match(response.error.message, message);
  }
});

test('a change changes only the given fields', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url, { events: ['email.bounced'] });
  const patch = async (body: object) =>
    (await service.request('PATCH', `/v1/webhooks/${webhook.id}`, { body })).body;
  const disabled = await patch({ status: 'disabled' });
  assert.deepEqual([disabled.status, disabled.events], ['disabled', ['email.bounced']]);
  const changed = await patch({ events: null, url: `${receiver.url}/new` });
  assert.deepEqual([changed.status, changed.events], ['disabled', null]);
  assert.equal(changed.url, `${receiver.url}/new`);
  assert.match((await patch({ url: 'nowhere' })).error.message, /^url: /);
});

test('a test sends one event at once and returns the result', async () => {
  await using receiver = await startReceiver({ status: 201, body: 'hello' });
  await using webhook = await registered(receiver.url, { events: ['email.bounced'] });
  const path = `/v1/webhooks/${webhook.id}/test`;
  const { status, body: tested } = await service.request('POST', path);
  assert.equal(status, 200);
  assert.equal(tested.status, 'delivered');
  assert.equal(tested.log[0].status, 201);
  assert.equal(tested.log[0].answer, 'hello');
  const [received] = receiver.received;
  assert.equal(received?.id, tested.id);
  assert.deepEqual(verified(webhook.signing_secret, received!), tested.payload);
  assert.equal(tested.type, 'webhook.test');
  receiver.behaviour = 500;
  const { body: failed } = await service.request('POST', path);
  assert.deepEqual([failed.status, failed.next_attempt_at], ['failed', null]);
  assert.equal((await get(`/v1/webhooks/${webhook.id}`)).failing_since, null);
});

test('deliveries are listed with the response, and sent again with the same id', async () => {
  // No attempt of the schedule comes between those of this test.
  await using receiver = await startReceiver({ status: 404, headers: { 'retry-after': '3600' } });
  await using webhook = await registered(receiver.url, { events: ['email.delivered'] });
  await service.send();
  const [received] = await receiver.waitForCount(1);
  const path = `/v1/webhooks/${webhook.id}/deliveries`;
  const pending = await waitFor(
    async () => {
      const { data } = await get(path);
      return data[0]?.attempts === 1 && data[0];
    },
    { what: 'the attempt' },
  );
  assert.deepEqual([pending.id, pending.status], [received!.id, 'pending']);
  assert.ok(pending.next_attempt_at);
  assert.deepEqual((await get(`${path}?status=delivered`)).data, []);
  receiver.behaviour = 200;
  const replayed = await service.request('POST', `${path}/${pending.id}/replay`);
  assert.equal(replayed.status, 202, replayed.text);
  const delivered = await waitForDelivery(webhook.id, pending.id, 'delivered');
  assert.deepEqual(
    delivered.log.map((attempt: { status: number }) => attempt.status),
    [404, 200],
  );
  assert.deepEqual(delivered.payload, received!.event);
  assert.deepEqual(receiver.ids(), [pending.id, pending.id]);
});

test('deliveries are listed by event type', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url);
  await service.send();
  await receiver.waitForCount(2);
  const path = `/v1/webhooks/${webhook.id}/deliveries`;
  const kinds = async (query: string): Promise<string[]> =>
    (await get(`${path}?${query}`)).data.map(({ type }: { type: string }) => type);
  assert.deepEqual(await kinds('type=email.delivered'), ['email.delivered']);
  assert.deepEqual(await kinds('type=email.bounced'), []);
  await waitFor(async () => (await kinds('status=delivered')).length === 2, { what: 'outcomes' });
  assert.deepEqual(await kinds('type=email.queued&status=delivered'), ['email.queued']);
  assert.deepEqual(await kinds('type=email.queued&status=failed'), []);
  const wrong = await service.request('GET', `${path}?type=email.sneezed`);
  assert.equal(wrong.status, 422);
  assert.match(wrong.body.error.message, /^type: /);
});

test('all or only failed deliveries of a time range are sent again', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url, { events: ['email.delivered'] });
  const since = new Date(Date.now() - 60_000).toISOString();
  for (let sent = 0; sent < 3; sent += 1) await service.send();
  await receiver.waitForCount(3);
  const first = receiver.ids();
  for (const id of first) await waitForDelivery(webhook.id, id, 'delivered');
  const path = `/v1/webhooks/${webhook.id}`;
  const replay = (body: object) => service.request('POST', `${path}/replay`, { body });
  const endOf = (id: string) =>
    waitFor(
      async () => {
        const found = await get(`${path}/replays/${id}`);
        return found.status === 'completed' && found;
      },
      { what: 'the end of the replay' },
    );
  const until = new Date(Date.now() + 60_000).toISOString();
  const { body: none } = await replay({ since, until, status: 'failed' });
  assert.deepEqual([none.total, none.delivery_status], [0, 'failed']);
  await endOf(none.id);
  const { status, body } = await replay({ since, until });
  assert.equal(status, 202);
  assert.deepEqual(body, {
    object: 'webhook_replay',
    id: body.id,
    webhook_id: webhook.id,
    status: 'running',
    since,
    until: body.created_at,
    delivery_status: null,
    type: null,
    code: null,
    total: 3,
    queued: 0,
    created_at: body.created_at,
    completed_at: null,
  });
  await receiver.waitForCount(6);
  assert.deepEqual(receiver.ids().slice(3).toSorted(), first.toSorted());
  const end = await endOf(body.id);
  assert.deepEqual([end.queued, end.total], [3, 3]);
  assert.ok(end.completed_at >= body.created_at);
  assert.equal((await replay({ since: until, until: since })).status, 422);
  assert.equal((await replay({ since })).status, 422);
});

test('tests and replays are limited, with rate-limit headers', async () => {
  const limited = await service.otherProject();
  await limited.cliJson('projects', 'set-limit', '2/60', '--category', 'webhooks');
  await using receiver = await startReceiver();
  const body = { url: receiver.url };
  const { body: webhook } = await limited.request('POST', '/v1/webhooks', { body });
  const path = `/v1/webhooks/${webhook.id}`;
  const tested = await limited.request('POST', `${path}/test`);
  assert.deepEqual([tested.status, tested.headers.get('ratelimit-remaining')], [200, '1']);
  const range = { since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z' };
  const replayed = await limited.request('POST', `${path}/replay`, { body: range });
  assert.deepEqual([replayed.status, replayed.headers.get('remaining')], [202, '0']);
  const single = `${path}/deliveries/${tested.body.id}/replay`;
  for (const refused of [`${path}/test`, single]) {
    const response = await limited.request('POST', refused);
    assert.equal(response.status, 429);
    assert.equal(response.body.error.code, 'rate_limit_error');
    assert.ok(Number(response.headers.get('retry-after')) > 0);
  }
  const unknown = await limited.request('POST', `/v1/webhooks/${UNKNOWN_ID}/test`);
  assert.equal(unknown.status, 404);
});

test('a disabled webhook refuses a replay', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url, { events: ['email.delivered'] });
  await service.send();
  const [received] = await receiver.waitForCount(1);
  const path = `/v1/webhooks/${webhook.id}`;
  await service.request('PATCH', path, { body: { status: 'disabled' } });
  const replayed = await service.request('POST', `${path}/deliveries/${received!.id}/replay`);
  assert.equal(replayed.status, 409);
  assert.equal(replayed.body.error.code, 'conflict');
});

test('after a rotation the old and the new secret sign', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url, { events: ['email.bounced'] });
  const path = `/v1/webhooks/${webhook.id}`;
  const { status, body: rotated } = await service.request('POST', `${path}/rotate-secret`);
  assert.equal(status, 200);
  assert.notEqual(rotated.signing_secret, webhook.signing_secret);
  await service.request('POST', `${path}/test`);
  const [received] = receiver.received;
  verified(webhook.signing_secret, received!);
  verified(rotated.signing_secret, received!);
  assert.equal(received!.headers['webhook-signature']!.split(' ').length, 2);
  assert.equal((await service.request('POST', `${path}/rotate-secret`)).status, 200);
  const third = await service.request('POST', `${path}/rotate-secret`);
  assert.deepEqual([third.status, third.body.error.code], [409, 'conflict']);
});

test('a 410 response disables a webhook, with the reason in its list entry', async () => {
  await using receiver = await startReceiver(410);
  await using webhook = await registered(receiver.url, { events: ['email.delivered'] });
  await service.send();
  const disabled = await waitFor(
    async () => {
      const { data } = await get('/v1/webhooks');
      return data[0].status === 'disabled' && data[0];
    },
    { what: 'the webhook to be disabled' },
  );
  assert.equal(disabled.id, webhook.id);
  assert.match(disabled.disabled_reason, /410/);
});

test('webhooks of another environment and unknown ids are not found', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver.url);
  const live = await service.liveKey();
  assert.deepEqual((await service.request('GET', '/v1/webhooks', { key: live })).body.data, []);
  const paths = (id: string): [string, string, object?][] => [
    ['GET', `/v1/webhooks/${id}`],
    ['PATCH', `/v1/webhooks/${id}`, { status: 'disabled' }],
    ['DELETE', `/v1/webhooks/${id}`],
    ['POST', `/v1/webhooks/${id}/test`],
    ['POST', `/v1/webhooks/${id}/rotate-secret`],
    ['GET', `/v1/webhooks/${id}/deliveries`],
    ['GET', `/v1/webhooks/${id}/deliveries/${UNKNOWN_ID}`],
    ['GET', `/v1/webhooks/${id}/replays/${UNKNOWN_ID}`],
    ['POST', `/v1/webhooks/${id}/deliveries/${UNKNOWN_ID}/replay`],
    [
      'POST',
      `/v1/webhooks/${id}/replay`,
      { since: '2026-01-01T00:00:00Z', until: '2026-01-02T00:00:00Z' },
    ],
  ];
  for (const id of [webhook.id, UNKNOWN_ID, 'nonsense']) {
    for (const [method, path, body] of paths(id)) {
      const response = await service.request(method, path, { key: live, body });
      assert.equal(response.status, 404, `${method} ${path}`);
      assert.equal(response.body.error.code, 'not_found');
    }
  }
  assert.equal((await get(`/v1/webhooks/${webhook.id}`)).status, 'enabled');
  assert.equal(receiver.received.length, 0);
});

test('a sending key cannot read webhooks', async () => {
  const { body } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'sender', permission: 'sending_access' },
  });
  for (const method of ['GET', 'POST']) {
    const response = await service.request(method, '/v1/webhooks', { key: body.key });
    assert.equal(response.status, 403);
    assert.equal(response.body.error.code, 'authorization_error');
  }
});
