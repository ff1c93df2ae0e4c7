/**
 * Claims in the queue that their live worker does not know of, as after a fail-over to a standby that
 * lacks the last commits. The operator's retry releases them, and so does the comparison of table and
 * memory after a database outage.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled } from '../support/load.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { FROM, liveEnv, newPeers, waitForEmptyQueue } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const LATER = { recipients: { jo: '451 4.7.1 Greylisted' } };

const peers = await newPeers();
const { mx } = peers;
const database = await proxiedDatabase();
const service = await startService({ dns: peers.dns, database, env: liveEnv(peers) });
after(async () => {
  for (const part of [service, database, peers]) await part[Symbol.asyncDispose]();
});
await service.addLiveDomain('acme.example.org');
const key = await service.liveKey();

/** An email that waits for its second attempt. */
async function deferred(expires_in = 3600): Promise<string> {
  mx.set(LATER);
  const draft = { from: FROM, to: 'jo@receiver.example.org', expires_in };
  const id = await service.send(draft, { key });
  await service.waitForStatus(id, 'deferred', { key });
  return id;
}

const holdInItsName = (table: 'queue' | 'webhook_queue'): Promise<unknown> =>
  service.sql(`update ${table} set holder = (select id from nodes), claim = claim + 1`);

test('queue retry releases a claim that its worker does not know of', async () => {
  const id = await deferred();
  await service.sql('update queue set claim = 2');
  await holdInItsName('queue');
  mx.set({});
  const { stdout } = await service.cli('queue', 'retry', '--email', id);
  assert.match(
    stdout,
    /1 were claimed by a worker .* within a minute the worker releases those that it has no record of/,
  );
  await service.waitForStatus(id, 'delivered', { key });
  assert.equal(arrivals(mx).get(id), 1);
});

test('mail claimed by a worker without a lease is reclaimed', async () => {
  const id = await deferred();
  await service.sql('update queue set holder = gen_random_uuid(), claim = 2');
  // The server still refuses: a service that has just started may free it before the command does.
  await service.cliJson('queue', 'retry', '--email', id);
  mx.set({});
  const isDelivered = async () => {
    await service.cli('queue', 'retry', '--email', id);
    const { body } = await service.request('GET', `/v1/emails/${id}`, { key });
    return body.status === 'delivered';
  };
  await waitFor(isDelivered, { what: 'it to be delivered' });
});

test('mail under a claim that its worker does not know of ends at its expiry', async () => {
  const id = await deferred(600);
  await holdInItsName('queue');
  await service.clock.advance({ minutes: 11 });
  await service.cliJson('queue', 'retry', '--email', id);
  const { recipients } = await service.waitForStatus(id, 'failed', { key, timeoutMs: 60_000 });
  assert.equal(recipients[0].reason.category, 'expired');
});

test('after a database outage a worker releases the claims that it does not know of', async () => {
  const id = await deferred();
  mx.set({});
  await database.proxy.refuse();
  // The settlement of a delivery is lost with the old server: handed over, claim 1.
  await service.sql('update queue set claim = 0');
  await holdInItsName('queue');
  await waitFor(() => service.logs.includes('no heartbeat'), { what: 'a missed beat' });
  await database.proxy.heal();
  await service.waitForStatus(id, 'delivered', { key, timeoutMs: 90_000 });
  await waitForEmptyQueue(service);
  await assertSettled(service, [id]);
});

test('a replay releases a webhook claim that its worker does not know of', async () => {
  // No attempt of the schedule comes between those of this test.
  await using receiver = await startReceiver({ status: 500, headers: { 'retry-after': '3600' } });
  const body = { url: receiver.url, events: ['email.delivered'] };
  const { body: endpoint } = await service.request('POST', '/v1/webhooks', { body });
  await service.send();
  await receiver.waitForCount(1);
  const isBack = async () =>
    (await service.sql('select from webhook_queue where holder is null')).length === 1;
  await waitFor(isBack, { what: 'the failure to be written' });
  await holdInItsName('webhook_queue');
  receiver.behaviour = 204;
  const [{ event_id: eventId }] = await service.sql('select event_id from webhook_queue');
  const path = `/v1/webhooks/${endpoint.id}/deliveries/${eventId}/replay`;
  const response = await service.request('POST', path);
  assert.ok(response.status < 300, response.text);
  const isDone = async () => (await service.sql('select from webhook_queue')).length === 0;
  await waitFor(isDone, { what: 'the webhook to be delivered' });
  assert.equal(receiver.received.length, 2);
});
