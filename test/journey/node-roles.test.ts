/** API, delivery and webhooks on separate nodes. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { migratedDatabase } from '../support/postgres.ts';
import { FROM, liveEnv, newPeers, to } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

test('an email is accepted by one node, delivered by a second, and its webhooks sent by a third', async () => {
  await using peers = await newPeers();
  await using database = await migratedDatabase();
  await using receiver = await startReceiver();
  const { mx, dns } = peers;
  const env = liveEnv(peers, { LETTERHAUS_SECRET_KEY: 'a'.repeat(64) });
  const startOnly = (part: string) =>
    startService({ dns, database, env, args: ['--workers', '1', '--only', part] });

  await using api = await startOnly('api');
  await api.addLiveDomain('acme.example.org');
  const key = await api.liveKey();
  const registered = { url: receiver.url, events: ['email.delivered', 'email.failed'] };
  await api.request('POST', '/v1/webhooks', { key, body: registered });
  const late = await api.send({ from: FROM, to: to(1), expires_in: 60 }, { key });
  await api.clock.advance({ seconds: 61 });
  const id = await api.send({ from: FROM, to: to(2) }, { key });
  assert.equal((await api.email(id, key)).status, 'queued');
  assert.equal(mx.connections, 0);

  await using _delivery = await startOnly('delivery');
  await api.waitForStatus(id, 'delivered', { key });
  // An email that expired before a worker claimed it is not sent.
  const { recipients } = await api.waitForStatus(late, 'failed', { key });
  assert.deepEqual([recipients[0].attempts, recipients[0].reason.category], [0, 'expired']);
  assert.deepEqual(
    mx.messages.map((message) => message.recipients),
    [[to(2)]],
  );
  assert.equal(receiver.received.length, 0);

  await using _webhooks = await startOnly('webhooks');
  const notified = await receiver.waitForCount(2);
  const types = notified.map(({ event }) => `${event.type} ${event.data.recipient}`);
  assert.deepEqual(types.toSorted(), [`email.delivered ${to(2)}`, `email.failed ${to(1)}`]);
});
