/** Webhooks from the event to the stored response: a real database, and receivers of the tests over real HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Behaviour, startReceiver, verified } from '../../../test/support/webhook-receiver.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { ok, webhookTest, type WebhookTest } from '../../../test/support/webhooks.ts';
import { createAddressGuard } from '../../net/ip-addresses.ts';
import { DatabaseUnavailable, type Queryable, type Statement } from '../../database/database.ts';
import { expireWorker } from '../../delivery/queue/worker-store.ts';
import type { WebhookDeliveryDetail } from '../delivery-store.ts';
import { systemWorld } from '../../service/machine/system-world.ts';

type Status = WebhookDeliveryDetail['status'];

function waitForDelivery(
  { service, scope }: WebhookTest,
  [endpointId, eventId]: [string, string],
  check: (delivery: WebhookDeliveryDetail) => boolean,
): Promise<WebhookDeliveryDetail> {
  return waitFor(
    async () => {
      const delivery = ok(await service.findDelivery(scope, { endpointId, id: eventId }));
      return check(delivery) && delivery;
    },
    { what: 'the delivery' },
  );
}

const hasStatus = (status: Status) => (delivery: WebhookDeliveryDetail) =>
  delivery.status === status;

test('an event arrives once, signed, and its delivery records the response', async () => {
  await using receiver = await startReceiver({ status: 200, body: 'thank you' });
  await using t = await webhookTest();
  const { id, signingSecret } = await t.register(`${receiver.url}/hooks?a=1`);
  await t.startLoop();
  const eventId = await t.emit('domain.created');
  const [received] = await receiver.waitForCount(1);
  assert.equal(received?.path, '/hooks?a=1');
  assert.equal(received.headers['webhook-id'], eventId);
  assert.equal(received.headers['content-type'], 'application/json');
  assert.deepEqual(verified(signingSecret, received), received.event);
  assert.equal(received.event.type, 'domain.created');
  assert.match(received.event.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const delivery = await waitForDelivery(t, [id, eventId], hasStatus('delivered'));
  assert.equal(delivery.attempts, 1);
  assert.equal(delivery.log[0]?.status, 200);
  assert.equal(delivery.log[0]?.answer, 'thank you');
  assert.equal(delivery.nextAttemptAt, null);
  assert.equal(receiver.received.length, 1);
});

test('an endpoint gets only the event types that it subscribed to', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  await t.register(`${receiver.url}/all`);
  await t.register(`${receiver.url}/some`, ['domain.verified']);
  await t.startLoop();
  await t.emit('domain.deleted');
  await t.emit('domain.verified');
  const arrived = (await receiver.waitForCount(3)).map(
    ({ path, event }) => `${path} ${event.type}`,
  );
  assert.deepEqual(arrived.toSorted(), [
    '/all domain.deleted',
    '/all domain.verified',
    '/some domain.verified',
  ]);
});

test('a failure is retried after 5 s with the same id and a new signature', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id, signingSecret } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  const failed = await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 1);
  assert.equal(failed.status, 'pending');
  const waitMs = failed.nextAttemptAt!.getTime() - Date.parse(failed.log[0]!.at);
  // The wait after a second failure would be minutes.
  assert.ok(waitMs >= 4_250 && waitMs < 60_000, `${waitMs} ms`);
  receiver.behaviour = 204;
  await t.advance('6 seconds');
  const delivered = await waitForDelivery(t, [id, eventId], hasStatus('delivered'));
  assert.deepEqual(receiver.ids(), [eventId, eventId]);
  for (const received of receiver.received) verified(signingSecret, received);
  assert.deepEqual(
    delivered.log.map(({ status }) => status),
    [500, 204],
  );
});

test('after ten attempts a delivery has failed', async () => {
  await using receiver = await startReceiver(503);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  for (let made = 1; made < 10; made += 1) {
    await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === made);
    await t.db.query('update webhook_queue set due_at = app_now()');
    await t.db.query('update webhook_endpoints set blocked_until = app_now()');
    await t.advance('1 second');
  }
  const delivery = await waitForDelivery(t, [id, eventId], hasStatus('failed'));
  assert.equal(delivery.attempts, 10);
  assert.deepEqual(await t.db.query('select 1 from webhook_queue'), []);
});

test('Retry-After is honoured', async () => {
  await using receiver = await startReceiver({ status: 429, headers: { 'retry-after': '600' } });
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  const { nextAttemptAt } = await waitForDelivery(
    t,
    [id, eventId],
    ({ attempts }) => attempts === 1,
  );
  assert.ok(nextAttemptAt!.getTime() - Date.now() > 590_000);
});

test('a redirect is a failure and is not followed', async () => {
  await using target = await startReceiver();
  await using receiver = await startReceiver({ status: 302, headers: { location: target.url } });
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  const { log } = await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 1);
  assert.equal(log[0]?.status, 302);
  assert.match(log[0]?.error ?? '', /redirect/);
  assert.equal(target.received.length, 0);
});

test('a private address is not connected to, with the reason in the log', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest(createAddressGuard({ allowPrivate: false }));
  const { id } = await t.register('https://example.com/hooks');
  await t.db.query('update webhook_endpoints set url = $1', [`https://127.0.0.1/`]);
  await t.startLoop();
  const eventId = await t.emit();
  const { log } = await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 1);
  assert.match(log[0]?.error ?? '', /^127\.0\.0\.1 is not a public address$/);
  assert.equal(receiver.received.length, 0);
});

test('410 disables the endpoint, and its pending deliveries end as failed', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const waiting = await t.emit();
  await waitForDelivery(t, [id, waiting], ({ attempts }) => attempts === 1);
  receiver.behaviour = 410;
  const last = await t.emit();
  await waitForDelivery(t, [id, last], hasStatus('failed'));
  await waitForDelivery(t, [id, waiting], hasStatus('failed'));
  const endpoint = ok(await t.service.get(t.scope, id));
  assert.equal(endpoint.status, 'disabled');
  assert.match(endpoint.disabledReason ?? '', /410/);
  await t.emit();
  assert.equal(receiver.received.length, 2);
});

test('an endpoint that only failed for five days is disabled, with the time of its first failure', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 1);
  const { failingSince } = ok(await t.service.get(t.scope, id));
  await t.advance('4 days 23 hours');
  await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 2);
  assert.equal(ok(await t.service.get(t.scope, id)).status, 'enabled');
  await t.advance('2 hours');
  await waitForDelivery(t, [id, eventId], hasStatus('failed'));
  const endpoint = ok(await t.service.get(t.scope, id));
  assert.equal(endpoint.status, 'disabled');
  assert.ok(endpoint.disabledReason?.includes(failingSince!.toISOString()));
});

test('one success in five days keeps an endpoint enabled', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const unlucky = await t.emit();
  await waitForDelivery(t, [id, unlucky], ({ attempts }) => attempts === 1);
  receiver.behaviour = ({ id: eventId }) => (eventId === unlucky ? 500 : 200);
  await waitForDelivery(t, [id, await t.emit()], hasStatus('delivered'));
  await t.advance('6 days');
  await waitForDelivery(t, [id, unlucky], ({ attempts }) => attempts === 2);
  assert.equal(ok(await t.service.get(t.scope, id)).status, 'enabled');
});

test('disabling an endpoint ends its pending deliveries, and enabling resets its failures', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const first = await t.emit();
  await waitForDelivery(t, [id, first], ({ attempts }) => attempts === 1);
  ok(await t.service.update(t.scope, id, { status: 'disabled' }));
  await waitForDelivery(t, [id, first], hasStatus('failed'));
  receiver.behaviour = 200;
  const endpoint = ok(await t.service.update(t.scope, id, { status: 'enabled' }));
  assert.equal(endpoint.failingSince, null);
  await waitForDelivery(t, [id, await t.emit()], hasStatus('delivered'));
});

test('pending deliveries of a deleted endpoint end as failed', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  await waitForDelivery(t, [id, eventId], ({ attempts }) => attempts === 1);
  ok(await t.service.delete(t.scope, id));
  const ended = () => t.db.query(`select 1 from webhook_deliveries where status = 'failed'`);
  await waitFor(async () => (await ended()).length === 1, { what: 'the delivery to end' });
  assert.deepEqual(await t.db.query('select 1 from webhook_queue'), []);
});

test('after a rotation both secrets verify for 24 hours, then only the new one', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id, signingSecret: old } = await t.register(receiver.url);
  const { signingSecret: next } = ok(await t.service.rotateSecret(t.scope, id));
  await t.startLoop();
  await t.emit();
  const [during] = await receiver.waitForCount(1);
  verified(old, during!);
  verified(next, during!);
  await t.advance('24 hours 1 second');
  await t.emit();
  const [, after] = await receiver.waitForCount(2);
  verified(next, after!);
  assert.throws(() => verified(old, after!));
});

test('a rotation that is repeated within 24 hours ends no secret early; a third is refused', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id, signingSecret: first } = await t.register(receiver.url);
  const rotate = () => t.service.rotateSecret(t.scope, id);
  const { signingSecret: lost } = ok(await rotate());
  await t.advance('1 hour');
  const { signingSecret: present } = ok(await rotate());
  const refused = await rotate();
  assert.equal('refused' in refused && refused.refused, 'conflict');
  await t.startLoop();
  await t.emit();
  const [during] = await receiver.waitForCount(1);
  for (const secret of [first, lost, present]) verified(secret, during!);
  await t.advance('23 hours 1 second');
  await t.emit();
  const [, after] = await receiver.waitForCount(2);
  for (const secret of [lost, present]) verified(secret, after!);
  assert.throws(() => verified(first, after!));
  ok(await rotate());
});

test('two concurrent changes are both applied', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/old', ['domain.created']);
  const url = 'http://127.0.0.1:9/new';
  await Promise.all([
    t.service.update(t.scope, id, { url }),
    t.service.update(t.scope, id, { events: ['domain.failed'] }),
    t.service.update(t.scope, id, { status: 'disabled' }),
  ]);
  const endpoint = ok(await t.service.get(t.scope, id));
  assert.deepEqual(
    [endpoint.url, endpoint.events, endpoint.status],
    [url, ['domain.failed'], 'disabled'],
  );
});

test('an endpoint that hangs with 2,000 pending events does not delay another', async () => {
  await using dead = await startReceiver('hang');
  await using alive = await startReceiver();
  await using t = await webhookTest();
  const { id: deadId } = await t.register(dead.url, ['domain.deleted']);
  await t.register(alive.url, ['domain.verified']);
  await t.backlog(deadId, 2_000);
  const loop = await t.startLoop();
  await dead.waitForCount(2);
  await t.emit();
  loop.wake();
  await alive.waitForCount(1);
  // Two attempts run at a time, and each takes 15 s.
  assert.equal(dead.received.length, 2);
  await dead[Symbol.asyncDispose](); // else stopping would wait for its answers
});

test('a failing endpoint is suspended as a whole, and its backlog is sent after it recovers', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.backlog(id, 200);
  await t.startLoop();
  const isSuspended = `select 1 from webhook_endpoints where blocked_until > app_now()`;
  await waitFor(async () => (await t.db.query(isSuspended)).length === 1, { what: 'a rest' });
  const attemptsBefore = receiver.received.length;
  assert.ok(attemptsBefore < 10, `${attemptsBefore} attempts`);
  receiver.behaviour = 200;
  await t.advance('10 seconds');
  const ids = new Set((await receiver.waitForCount(attemptsBefore + 200)).map((one) => one.id));
  assert.equal(ids.size, 200);
});

test('a delivery that is reclaimed after its POST is sent again with the same id, and the late outcome is ignored', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.behaviour = () => (receiver.received.length === 1 ? late.promise : 200);
  const frozen = await t.startLoop();
  const eventId = await t.emit();
  await receiver.waitForCount(1);
  const survivor = await t.startLoop();
  await expireWorker(t.db, { id: frozen.leaseId, beat: null });
  survivor.wake();
  await waitForDelivery(t, [id, eventId], hasStatus('delivered'));
  assert.deepEqual(receiver.ids(), [eventId, eventId]);
  late.resolve(410);
  await waitFor(() => frozen.stats.fenced === 1, { what: 'the late outcome' });
  const delivery = ok(await t.service.findDelivery(t.scope, { endpointId: id, id: eventId }));
  assert.equal(delivery.status, 'delivered');
  assert.equal(delivery.attempts, 1);
  assert.equal(ok(await t.service.get(t.scope, id)).status, 'enabled');
});

test('a worker that resumes after a freeze does not send webhooks that another may have sent', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const frozen = await t.startLoop({ isFresh: () => false });
  const eventId = await t.emit();
  const givenBack = `select from webhook_queue where claim > 0 and holder is null and event_id = $1`;
  await waitFor(async () => (await t.db.query(givenBack, [eventId])).length === 1, {
    what: 'the release of its deliveries',
  });
  assert.deepEqual(receiver.ids(), []);
  // A running loop would continue to claim and release, each time for two seconds.
  await frozen.stop();
  await t.startLoop();
  await t.advance('3 seconds');
  await waitForDelivery(t, [id, eventId], hasStatus('delivered'));
  assert.deepEqual(receiver.ids(), [eventId]);
});

test('a claim whose reply was lost with the connection is released and repeated', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const eventId = await t.emit();
  let aheadMs = 0;
  let lost = 0;
  const world = { ...systemWorld, monotonicMs: () => performance.now() + aheadMs };
  const webhooks: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      const rows = await t.db.webhooks.query<Row>(statement, values);
      const isClaim = typeof statement === 'object' && statement.name === 'webhooks_claim';
      if (!isClaim || lost > 0) return rows;
      lost = rows.length;
      throw new DatabaseUnavailable('the connection broke');
    },
  };
  await t.startLoop({ db: { webhooks }, world });
  await waitFor(() => lost === 1, { what: 'the claim' });
  await waitForDelivery(t, [id, await t.emit()], hasStatus('delivered'));
  assert.ok(!receiver.ids().includes(eventId));
  aheadMs = 31_000;
  await waitForDelivery(t, [id, eventId], hasStatus('delivered'));
});

test('a delivery whose event is no longer stored ends as failed', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const eventId = await t.emit();
  await t.db.query('delete from events');
  await t.startLoop();
  const delivery = await waitForDelivery(t, [id, eventId], hasStatus('failed'));
  assert.deepEqual([delivery.attempts, delivery.event], [0, null]);
  assert.equal(ok(await t.service.get(t.scope, id)).failingSince, null);
  assert.equal(receiver.received.length, 0);
});

test('a long response is cut at 4 KB, an incomplete one is a failure', async () => {
  await using receiver = await startReceiver('flood');
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const flooded = await t.emit();
  const { log } = await waitForDelivery(t, [id, flooded], hasStatus('delivered'));
  assert.equal(log[0]?.answer?.length, 4_096);
  receiver.behaviour = 'break off';
  const broken = await t.emit();
  const delivery = await waitForDelivery(t, [id, broken], ({ attempts }) => attempts === 1);
  assert.match(delivery.log[0]?.error ?? '', /closed the connection/);
});

test('a stop interrupts no delivery: every event is sent', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.backlog(id, 300);
  const loop = await t.startLoop();
  await receiver.waitForCount(20);
  await loop.stop();
  const stopped = receiver.received.length;
  const leased = await t.db.query('select 1 from webhook_queue where holder is not null');
  assert.deepEqual(leased, []);
  assert.equal(new Set(receiver.ids()).size, stopped);
  await t.startLoop();
  await receiver.waitForCount(300);
  assert.equal(new Set(receiver.ids()).size, 300);
});
