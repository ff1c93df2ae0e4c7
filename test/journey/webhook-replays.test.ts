/** A time range is replayed while new events arrive: the endpoint gets all of them, each as often as documented. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { type Behaviour, startReceiver } from '../support/webhook-receiver.ts';

const service = await startService({
  args: ['--workers', '2'],
  env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1', LETTERHAUS_LIMIT_SENDING: '100000/60' },
});
after(() => service[Symbol.asyncDispose]());

const OLD = 700;
const NEW = 300;

/** @returns the ids of their events, once all have ended */
async function sendEmails(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let sent = 0; sent < count; sent += 50) {
    ids.push(...(await Promise.all(Array.from({ length: 50 }, () => service.send()))));
  }
  const events = async () => {
    const sql = `select id from events where subject_id = any($1) and type = 'email.delivered'`;
    const rows = await service.sql(sql, [ids]);
    return rows.length === count && rows.map(({ id }): string => id);
  };
  return waitFor(events, { what: 'all to be delivered', timeoutMs: 60_000 });
}

test('a replay while new events come sends each old event once more, and each new one once', async () => {
  await using receiver = await startReceiver();
  const { body: webhook } = await service.request('POST', '/v1/webhooks', {
    body: { url: receiver.url, events: ['email.delivered'] },
  });
  const path = `/v1/webhooks/${webhook.id}`;
  const old = await sendEmails(OLD);
  await receiver.waitForCount(OLD, { timeoutMs: 60_000 });
  await noneIsPending(webhook.id);
  receiver.received.length = 0;

  const begun = Promise.withResolvers<void>();
  const refused = new Set<string>();
  receiver.behaviour = async ({ id }): Promise<Behaviour> => {
    await begun.promise;
    if (receiver.received.length % 50 !== 0 || refused.has(id)) return 200;
    refused.add(id);
    return 500;
  };
  const range = { since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z' };
  const { status, body: replay } = await service.request('POST', `${path}/replay`, { body: range });
  assert.deepEqual([status, replay.total], [202, OLD]);
  await receiver.waitForCount(1);
  const sending = sendEmails(NEW);
  const again = await service.request('POST', `${path}/replay`, { body: range });
  assert.equal(again.body.id, replay.id);
  begun.resolve();
  const recent = await sending;
  const isCompleted = async () =>
    (await service.request('GET', `${path}/replays/${replay.id}`)).body.status === 'completed';
  await waitFor(isCompleted, { what: 'the end of the replay', timeoutMs: 60_000 });
  await service.clock.advance({ minutes: 5 });
  await noneIsPending(webhook.id);

  const counts = new Map<string, number>();
  for (const id of receiver.ids()) counts.set(id, (counts.get(id) ?? 0) + 1);
  for (const id of [...old, ...recent]) assert.ok((counts.get(id) ?? 0) >= 1, `${id} is missing`);
  assert.equal(counts.size, OLD + NEW);
  // Only those that the receiver refused came twice.
  assert.ok(refused.size > 0);
  for (const [id, count] of counts) assert.equal(count, refused.has(id) ? 2 : 1, id);
});

async function noneIsPending(endpointId: string): Promise<void> {
  const sql = `select 1 from webhook_deliveries where endpoint_id = $1 and status = 'pending' limit 1`;
  const isDone = async () => (await service.sql(sql, [endpointId])).length === 0;
  await waitFor(isDone, { what: 'every delivery', timeoutMs: 60_000 });
}
