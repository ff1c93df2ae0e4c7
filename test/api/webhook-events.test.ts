/** Webhook events: their types, the content of each, and the endpoints that receive them. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { PROJECT_EVENT_TYPES } from '../../src/core/events.ts';
import { TIME, UUID_V7 } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type Received, startReceiver, verified } from '../support/webhook-receiver.ts';

const service = await startService({ env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' } });
const receiver = await startReceiver();
after(async () => {
  await service[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const post = (path: string, body: object = {}, key = service.testKey) =>
  service.request('POST', path, { body, key });

/** Receives every event of the test environment, from the first test on. */
const { body: webhook } = await post('/v1/webhooks', { url: receiver.url });

async function receivedEvent(
  what: string,
  wanted: (received: Received) => boolean,
): Promise<Received> {
  return waitFor(() => receiver.received.find(wanted), { what });
}

const eventOfEmail = (id: string, type: string) =>
  receivedEvent(type, ({ event }) => event.type === type && event.data.email_id === id);

test('a webhook can subscribe to every event type of a project', async () => {
  const events = [...PROJECT_EVENT_TYPES];
  const response = await post('/v1/webhooks', { url: `${receiver.url}/all`, events });
  assert.equal(response.status, 201, response.text);
  assert.deepEqual(response.body.events, events);
  await service.request('DELETE', `/v1/webhooks/${response.body.id}`);
});

/** Recipient, the type of its event, and whether the event has a reason and a reply of a server. */
const OUTCOMES: [string, string, { reason: boolean; smtp: boolean }][] = [
  ['delivered', 'email.delivered', { reason: false, smtp: true }],
  ['deferred', 'email.delivery_delayed', { reason: true, smtp: true }],
  ['bounced+events', 'email.bounced', { reason: true, smtp: true }],
  ['suppressed', 'email.suppressed', { reason: true, smtp: false }],
  ['complained+events', 'email.complained', { reason: true, smtp: false }],
];

for (const [name, type, has] of OUTCOMES) {
  test(`${type} has recipient, status and reason, with the id of the timeline`, async () => {
    const to = [`Jo <${name}@simulator.test>`];
    const tags = [{ name: 'kind', value: 'receipt' }];
    const id = await service.send({ to, tags, metadata: { order: '4711' } });
    const { headers, body, event } = await eventOfEmail(id, type);
    assert.deepEqual(Object.keys(event), ['type', 'created_at', 'data']);
    assert.match(event.created_at, TIME);
    const email = await service.email(id);
    const { smtp, reason, ...data } = event.data;
    assert.deepEqual(data, {
      email_id: id,
      recipient: `${name}@simulator.test`,
      from: 'Acme <hello@acme.test>',
      to,
      subject: 'Hello',
      tags,
      metadata: { order: '4711' },
      message_id: email.message_id,
      status: type === 'email.delivery_delayed' ? 'deferred' : type.replace('email.', ''),
    });
    assert.deepEqual({ reason: Boolean(reason), smtp: Boolean(smtp) }, has);
    const timeline = await service.request('GET', `/v1/emails/${id}/events`);
    // A later one of the type may be received earlier.
    const isSame = (one: ApiResponse['body']) => one.id === headers['webhook-id'];
    const same = timeline.body.data.find(isSame);
    assert.deepEqual([same?.type, same?.data], [type, event.data]);
    assert.deepEqual(verified(webhook.signing_secret, { headers, body } as Received), event);
    for (const part of ['id', 'timestamp', 'signature']) {
      assert.equal(headers[`svix-${part}`], headers[`webhook-${part}`]);
    }
  });
}

test('email.queued is about the email and has no recipient', async () => {
  const id = await service.send({ to: ['a@simulator.test', 'b@simulator.test'] });
  const { event } = await eventOfEmail(id, 'email.queued');
  assert.ok(!('recipient' in event.data));
  assert.deepEqual([event.data.status, event.data.to.length], ['queued', 2]);
  const delivered = () =>
    receiver.received.filter(
      ({ event: one }) => one.type === 'email.delivered' && one.data.email_id === id,
    );
  await waitFor(() => delivered().length === 2, { what: 'an event for each recipient' });
  const recipients = delivered().map(({ event: one }) => one.data.recipient);
  assert.deepEqual(new Set(recipients), new Set(['a@simulator.test', 'b@simulator.test']));
});

test('email.failed is sent when an email expires', async () => {
  const id = await service.send({ to: 'full@simulator.test', expires_in: 60 });
  await eventOfEmail(id, 'email.delivery_delayed');
  await service.clock.advance({ seconds: 61 });
  const { event } = await eventOfEmail(id, 'email.failed');
  assert.deepEqual([event.data.status, event.data.reason.category], ['failed', 'expired']);
});

test('events of a domain contain the domain', async () => {
  const { body: domain } = await post('/v1/domains', { name: 'events.test' });
  await post(`/v1/domains/${domain.id}/verify`);
  await service.request('DELETE', `/v1/domains/${domain.id}`);
  for (const type of ['domain.created', 'domain.verified', 'domain.deleted']) {
    const { event, id } = await receivedEvent(type, ({ event: one }) => one.type === type);
    assert.match(id, UUID_V7);
    assert.deepEqual([event.data.id, event.data.name], [domain.id, 'events.test']);
  }
});

test('events of a suppression contain its address and reason', async () => {
  const id = await service.send({ to: 'bounced+listed@simulator.test' });
  const { event } = await receivedEvent(
    'suppression.added',
    ({ event: one }) => one.type === 'suppression.added' && one.data.source_email_id === id,
  );
  assert.deepEqual(
    [event.data.address, event.data.reason],
    ['bounced+listed@simulator.test', 'hard_bounce'],
  );
});

test('an event is sent once, only to webhooks of its project and environment', async () => {
  await using elsewhere = await startReceiver();
  const live = await service.liveKey();
  await service.cliJson('projects', 'create', 'Other');
  const other = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  for (const key of [live, other.key]) {
    const { status } = await post('/v1/webhooks', { url: elsewhere.url }, key);
    assert.equal(status, 201);
  }
  const own = `${receiver.url}/second`;
  const { body: second } = await post('/v1/webhooks', { url: own, events: ['email.delivered'] });
  const id = await service.send();
  const notified = () => receiver.received.filter(({ event }) => event.data.email_id === id);
  await waitFor(() => notified().length >= 3, { what: 'both webhooks' });
  await post(`/v1/webhooks/${second.id}/test`);
  const paths = notified().map(({ path, event }) => `${path} ${event.type}`);
  assert.deepEqual(
    new Set(paths),
    new Set(['/ email.queued', '/ email.delivered', '/second email.delivered']),
  );
  assert.equal(paths.length, 3);
  assert.deepEqual(elsewhere.received, []);
});
