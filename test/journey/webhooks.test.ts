/** What a receiver of webhooks goes through with a service that is killed, stopped or slowed down. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type Behaviour, startReceiver, verified } from '../support/webhook-receiver.ts';

const env = { POSTHORN_ALLOW_PRIVATE_NETWORKS: '1' };
const EMAILS = 30;

async function register(service: Service, url: string, events?: string[]): Promise<string> {
  const { body } = await service.request('POST', '/v1/webhooks', { body: { url, events } });
  return body.signing_secret;
}

async function sendEmails(service: Service): Promise<void> {
  await Promise.all(Array.from({ length: EMAILS }, () => service.send()));
}

/** Ids of all events of the project, sorted. */
async function eventIds(service: Service): Promise<string[]> {
  const rows = await service.sql(`select id from events where type like 'email.%' order by id`);
  return rows.map(({ id }) => id);
}

test('after a kill while webhooks are sent, each event arrives, repetitions under the same id', async () => {
  await using service = await startService({ env });
  await using receiver = await startReceiver();
  const secret = await register(service, receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.answer = () => (receiver.received.length < 10 ? 200 : late.promise);
  await sendEmails(service);
  await receiver.waitForCount(12);
  await service.killGroup9();
  late.resolve(200);
  await service.restart();
  const allTold = async () =>
    (await service.sql(`select 1 from webhook_deliveries where status <> 'delivered'`)).length ===
    0;
  await waitFor(async () => (await eventIds(service)).length === 2 * EMAILS, {
    what: 'every email to end',
    timeoutMs: 30_000,
  });
  await waitFor(allTold, { what: 'every delivery', timeoutMs: 30_000 });
  assert.deepEqual([...new Set(receiver.ids())].toSorted(), await eventIds(service));
  for (const received of receiver.received) verified(secret, received);
});

test('after a stop while webhooks are sent, none is repeated', async () => {
  await using service = await startService({ env });
  await using receiver = await startReceiver();
  await register(service, receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.answer = () => (receiver.received.length < 10 ? 200 : late.promise);
  await sendEmails(service);
  await receiver.waitForCount(11);
  const stopped = service.stop('SIGTERM');
  late.resolve(200);
  assert.equal(await stopped, 0);
  await service.restart();
  await receiver.waitForCount(2 * EMAILS, { timeoutMs: 30_000 });
  assert.deepEqual(receiver.ids().toSorted(), await eventIds(service));
});

test('a webhook endpoint that never answers does not delay others', async () => {
  await using service = await startService({ env });
  await using hanging = await startReceiver('hang');
  await using prompt = await startReceiver();
  await register(service, hanging.url);
  await register(service, prompt.url, ['email.delivered']);
  await sendEmails(service);
  await prompt.waitForCount(EMAILS, { timeoutMs: 5_000 });
  assert.ok(hanging.received.length < 2 * EMAILS);
});

test('a replay continues after a kill and sends every delivery', async () => {
  await using service = await startService({ env });
  await using receiver = await startReceiver();
  const body = { url: receiver.url, events: ['email.delivered'] };
  const { body: webhook } = await service.request('POST', '/v1/webhooks', { body });
  await sendEmails(service);
  const first = (await receiver.waitForCount(EMAILS)).map(({ id }) => id).toSorted();
  const isLogged = async () =>
    (await service.sql(`select from webhook_deliveries where status <> 'delivered'`)).length === 0;
  await waitFor(isLogged, { what: 'every outcome' });
  receiver.answer = 'hang';
  const range = { since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z' };
  const path = `/v1/webhooks/${webhook.id}`;
  const { body: replay } = await service.request('POST', `${path}/replay`, { body: range });
  assert.equal(replay.total, EMAILS);
  await receiver.waitForCount(EMAILS + 1);
  await service.killGroup9();
  receiver.answer = 200;
  const before = receiver.received.length;
  await service.restart();
  const again = () => new Set(receiver.ids().slice(before));
  await waitFor(() => again().size === EMAILS, { what: 'every delivery', timeoutMs: 30_000 });
  assert.deepEqual([...again()].toSorted(), first);
  const isCompleted = async () =>
    (await service.request('GET', `${path}/replays/${replay.id}`)).body.status === 'completed';
  await waitFor(isCompleted, { what: 'the end of the replay' });
  await waitFor(isLogged, { what: 'every outcome of the replay' });
});
