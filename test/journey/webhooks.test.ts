/** Webhooks of a service that is killed, stopped or slowed down. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type Behaviour, startReceiver, verified } from '../support/webhook-receiver.ts';

const EMAILS = 30;

const service = await startService({
  env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1', LETTERHAUS_LIMIT_SENDING: '1000/60' },
});
after(() => service[Symbol.asyncDispose]());

/** An endpoint for the time of a test. */
async function register(url: string, events?: string[]) {
  const { body } = await service.request('POST', '/v1/webhooks', { body: { url, events } });
  const path = `/v1/webhooks/${body.id}`;
  return {
    path,
    secret: body.signing_secret as string,
    /** None of its deliveries is open. */
    isDone: async () => {
      const open = `select from webhook_deliveries where endpoint_id = $1 and status <> 'delivered'`;
      return (await service.sql(open, [body.id])).length === 0;
    },
    async [Symbol.asyncDispose]() {
      assert.equal((await service.request('DELETE', path)).status, 200);
    },
  };
}

/** @returns their ids */
function sendEmails(): Promise<string[]> {
  return Promise.all(Array.from({ length: EMAILS }, () => service.send()));
}

/** Ids of all events of the emails, sorted. */
async function eventIds(emails: readonly string[]): Promise<string[]> {
  const rows = await service.sql('select id from events where subject_id = any($1) order by id', [
    emails,
  ]);
  return rows.map(({ id }) => id);
}

test('after a kill while webhooks are sent, each event arrives, repetitions under the same id', async () => {
  await using receiver = await startReceiver();
  await using webhook = await register(receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.behaviour = () => (receiver.received.length < 10 ? 200 : late.promise);
  const emails = await sendEmails();
  await receiver.waitForCount(12);
  await service.killGroup9();
  late.resolve(200);
  await service.restart();
  await waitFor(async () => (await eventIds(emails)).length === 2 * EMAILS, {
    what: 'every email to end',
  });
  await waitFor(webhook.isDone, { what: 'every delivery' });
  assert.deepEqual([...new Set(receiver.ids())].toSorted(), await eventIds(emails));
  for (const received of receiver.received) verified(webhook.secret, received);
});

test('after a stop while webhooks are sent, none is repeated', async () => {
  await using receiver = await startReceiver();
  await using _ = await register(receiver.url);
  const late = Promise.withResolvers<Behaviour>();
  receiver.behaviour = () => (receiver.received.length < 10 ? 200 : late.promise);
  const emails = await sendEmails();
  await receiver.waitForCount(11);
  const stopped = service.stop('SIGTERM');
  late.resolve(200);
  assert.equal(await stopped, 0);
  await service.restart();
  await receiver.waitForCount(2 * EMAILS);
  assert.deepEqual(receiver.ids().toSorted(), await eventIds(emails));
});

test('a webhook endpoint that never answers does not delay others', async () => {
  await using hanging = await startReceiver('hang');
  await using prompt = await startReceiver();
  await using _ = await register(hanging.url);
  await using __ = await register(prompt.url, ['email.delivered']);
  await sendEmails();
  await prompt.waitForCount(EMAILS);
  assert.ok(hanging.received.length < 2 * EMAILS);
});

test('a replay continues after a kill and sends every delivery', async () => {
  await using receiver = await startReceiver();
  await using webhook = await register(receiver.url, ['email.delivered']);
  const { path, isDone } = webhook;
  await sendEmails();
  const first = (await receiver.waitForCount(EMAILS)).map(({ id }) => id).toSorted();
  await waitFor(isDone, { what: 'every outcome' });
  receiver.behaviour = 'hang';
  const range = { since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z' };
  const { body: replay } = await service.request('POST', `${path}/replay`, { body: range });
  assert.equal(replay.total, EMAILS);
  await receiver.waitForCount(EMAILS + 1);
  await service.killGroup9();
  receiver.behaviour = 200;
  const before = receiver.received.length;
  await service.restart();
  const again = () => new Set(receiver.ids().slice(before));
  await waitFor(() => again().size === EMAILS, { what: 'every delivery' });
  assert.deepEqual([...again()].toSorted(), first);
  const isCompleted = async () =>
    (await service.request('GET', `${path}/replays/${replay.id}`)).body.status === 'completed';
  await waitFor(isCompleted, { what: 'the end of the replay' });
  await waitFor(isDone, { what: 'every outcome of the replay' });
});
