/** Replays: which deliveries are sent, how fast, by which worker, and what survives a crash. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Behaviour, startReceiver } from '../../test/support/webhook-receiver.ts';
import { waitFor } from '../../test/support/wait.ts';
import { ok, webhookTest, type WebhookTest } from '../../test/support/webhooks.ts';
import type { Queryable } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import { advanceReplays, type WebhookReplay } from './replay-store.ts';

async function ended(t: WebhookTest, endpointId: string, count: number): Promise<string[]> {
  await t.backlog(endpointId, count);
  await t.db.query('delete from webhook_queue');
  const rows = await t.db.query<{ id: string }>(
    `update webhook_deliveries set status = 'delivered', completed_at = app_now()
      where endpoint_id = $1 returning event_id as id`,
    [endpointId],
  );
  return rows.map(({ id }) => id).toSorted();
}

const EVER = {
  since: new Date('2026-01-01'),
  until: new Date('2100-01-01'),
  status: null,
  type: null,
  code: null,
};

const replayAll = async (t: WebhookTest, id: string): Promise<WebhookReplay> =>
  ok(await t.service.replayRange(t.scope, id, EVER));

function present(t: WebhookTest, { endpointId, id }: WebhookReplay): Promise<WebhookReplay> {
  return t.service.findReplay(t.scope, { endpointId, id }).then(ok);
}

function waitForEnd(t: WebhookTest, replay: WebhookReplay): Promise<WebhookReplay> {
  const look = async () => {
    const now = await present(t, replay);
    return now.status !== 'running' && now;
  };
  return waitFor(look, { what: 'the replay to end' });
}

const queuedIds = async (t: WebhookTest): Promise<string[]> =>
  (await t.db.query<{ id: string }>('select event_id as id from webhook_queue order by 1')).map(
    ({ id }) => id,
  );

test('a range is replayed by two workers, each delivery once, and the replay shows its progress', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const ids = await ended(t, id, 1_200);
  const replay = await replayAll(t, id);
  assert.deepEqual([replay.status, replay.total, replay.queued], ['running', 1_200, 0]);
  await Promise.all([t.startLoop(), t.startLoop()]);
  const end = await waitForEnd(t, replay);
  assert.deepEqual([end.status, end.queued], ['completed', 1_200]);
  await receiver.waitForCount(1_200);
  const unsent = `select from webhook_deliveries where status <> 'delivered'`;
  await waitFor(async () => (await t.db.query(unsent)).length === 0, { what: 'every outcome' });
  assert.deepEqual(receiver.ids().toSorted(), ids);
});

test('no more than 500 deliveries of a replay are due at a time', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  const ids = await ended(t, id, 700);
  const replay = await replayAll(t, id);
  for (let look = 0; look < 3; look += 1) await advanceReplays(t.db);
  assert.deepEqual(await queuedIds(t), ids.slice(0, 500));
  await t.db.query('delete from webhook_queue where event_id <= $1', [ids[99]]);
  await advanceReplays(t.db);
  assert.deepEqual(await queuedIds(t), ids.slice(100, 600));
  assert.equal((await present(t, replay)).queued, 600);
});

test('two workers that take the same step concurrently queue it once', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  const ids = await ended(t, id, 300);
  const replay = await replayAll(t, id);
  await Promise.all(Array.from({ length: 4 }, () => advanceReplays(t.db)));
  assert.equal((await present(t, replay)).queued, 300);
  assert.deepEqual(await queuedIds(t), ids);
});

test('a step whose reply was lost is not repeated; a step that failed is', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  const ids = await ended(t, id, 40);
  const replay = await replayAll(t, id);
  const dying = (isAfter: boolean): Queryable => ({
    query: async (statement, values) => {
      const isStep = typeof statement === 'string' && /^\s*with stepped/.test(statement);
      if (isStep && !isAfter) throw new Error('killed');
      const rows = await t.db.query(statement, values);
      if (isStep) throw new Error('killed');
      return rows as never;
    },
  });
  await assert.rejects(advanceReplays(dying(false)), /killed/);
  assert.deepEqual(await queuedIds(t), []);
  await assert.rejects(advanceReplays(dying(true)), /killed/);
  assert.deepEqual(await queuedIds(t), ids);
  await advanceReplays(t.db);
  const end = await present(t, replay);
  assert.deepEqual([end.status, end.queued], ['completed', 40]);
});

test('a replay does not send a delivery that another worker is sending', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.behaviour = () => late.promise;
  await t.startLoop();
  const eventId = await t.emit();
  await receiver.waitForCount(1);
  await t.startLoop();
  ok(await t.service.replay(t.scope, { endpointId: id, id: eventId }));
  await waitForEnd(t, await replayAll(t, id));
  receiver.behaviour = 200;
  const other = await t.emit();
  await receiver.waitForCount(2);
  assert.deepEqual(receiver.ids(), [eventId, other]);
  late.resolve(200);
  const isDelivered = async () =>
    ok(await t.service.findDelivery(t.scope, { endpointId: id, id: eventId })).status ===
    'delivered';
  await waitFor(isDelivered, { what: 'the first outcome' });
  assert.deepEqual(receiver.ids(), [eventId, other]);
});

test('two concurrent replays of one delivery send it once', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  const [eventId] = await ended(t, id, 1);
  const which = { endpointId: id, id: eventId! };
  const replays = Array.from({ length: 8 }, () => t.service.replay(t.scope, which));
  for (const replayed of await Promise.all(replays)) ok(replayed);
  assert.deepEqual(await queuedIds(t), [eventId]);
  await Promise.all([t.startLoop(), t.startLoop()]);
  const isSent = async () => (await queuedIds(t)).length === 0;
  await waitFor(isSent, { what: 'the delivery' });
  assert.deepEqual(receiver.ids(), [eventId]);
});

test('the same request returns the running replay; another range is refused meanwhile', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  await ended(t, id, 3);
  const first = await replayAll(t, id);
  assert.equal((await replayAll(t, id)).id, first.id);
  const other = await t.service.replayRange(t.scope, id, {
    ...EVER,
    status: 'failed',
    type: null,
    code: null,
  });
  assert.equal('refused' in other && other.refused, 'conflict');
  await advanceReplays(t.db);
  await advanceReplays(t.db);
  const second = await replayAll(t, id);
  assert.notEqual(second.id, first.id);
});

test('events that happen after the request are not part of a replay', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  const ids = await ended(t, id, 2);
  const replay = await replayAll(t, id);
  await t.advance('1 second');
  const later = await t.emit();
  await advanceReplays(t.db);
  await advanceReplays(t.db);
  const end = await present(t, replay);
  assert.deepEqual([end.status, end.queued], ['completed', 2]);
  assert.deepEqual(await queuedIds(t), [...ids, later].toSorted());
});

test('a replay ends as canceled when its webhook is disabled or deleted', async () => {
  await using t = await webhookTest();
  const { id } = await t.register('http://127.0.0.1:9/');
  await ended(t, id, 600);
  const first = await replayAll(t, id);
  await advanceReplays(t.db);
  ok(await t.service.update(t.scope, id, { status: 'disabled' }));
  await advanceReplays(t.db);
  const end = await present(t, first);
  assert.deepEqual([end.status, end.queued], ['canceled', 500]);
  ok(await t.service.update(t.scope, id, { status: 'enabled' }));
  await replayAll(t, id);
  ok(await t.service.delete(t.scope, id));
  await advanceReplays(t.db);
  const running = `select from webhook_replays where status = 'running'`;
  assert.deepEqual(await t.db.query(running), []);
});

test('a replay enables an endpoint that responded with 410, but not one that its owner disabled', async () => {
  await using receiver = await startReceiver(410);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.startLoop();
  const eventId = await t.emit();
  const which = { endpointId: id, id: eventId };
  const status = async () => ok(await t.service.get(t.scope, id)).status;
  await waitFor(async () => (await status()) === 'disabled', { what: 'the 410' });
  receiver.behaviour = 200;
  ok(await t.service.replay(t.scope, which));
  const endpoint = ok(await t.service.get(t.scope, id));
  assert.deepEqual([endpoint.status, endpoint.disabledReason], ['enabled', null]);
  const isDelivered = async () =>
    ok(await t.service.findDelivery(t.scope, which)).status === 'delivered';
  await waitFor(isDelivered, { what: 'the replay' });
  ok(await t.service.update(t.scope, id, { status: 'disabled' }));
  for (const refused of [
    await t.service.replay(t.scope, which),
    await t.service.replayRange(t.scope, id, EVER),
  ]) {
    assert.equal('refused' in refused && refused.refused, 'conflict');
  }
  assert.equal(await status(), 'disabled');
});

test('a filtered replay waits for nodes of older versions, which would replay the whole period', async () => {
  await using receiver = await startReceiver();
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await t.db.query(
    `insert into nodes (id, instance, host, pid, started_at, schema_known)
     values ($1, $1, 'older', 1, app_now(), 84)`,
    [newId()],
  );
  for (const filter of [{ code: '5xx' }, { type: 'email.sent' as const }]) {
    const refused = await t.service.replayRange(t.scope, id, { ...EVER, ...filter });
    assert.equal('refused' in refused && refused.refused, 'conflict');
  }
  await t.db.query(`delete from nodes where host = 'older'`);
  assert.equal(ok(await t.service.replayRange(t.scope, id, { ...EVER, code: '5xx' })).code, '5xx');
});

test('an endpoint that fails through a replay stays suspended', async () => {
  await using receiver = await startReceiver(500);
  await using t = await webhookTest();
  const { id } = await t.register(receiver.url);
  await ended(t, id, 600);
  await replayAll(t, id);
  await t.startLoop();
  const isSuspended = 'select from webhook_endpoints where blocked_until > app_now()';
  await waitFor(async () => (await t.db.query(isSuspended)).length === 1, { what: 'suspension' });
  const before = receiver.received.length;
  for (let look = 0; look < 3; look += 1) await advanceReplays(t.db);
  assert.equal((await t.db.query(isSuspended)).length, 1);
  assert.ok(receiver.received.length <= before + 1, `${receiver.received.length} attempts`);
});
