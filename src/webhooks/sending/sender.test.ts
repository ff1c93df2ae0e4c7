/** Responses that cannot be stored at once: nothing is sent a second time, and every failure counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startReceiver } from '../../../test/support/webhook-receiver.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { SETTLING } from '../../../test/support/mail-store.ts';
import { webhookTest } from '../../../test/support/webhooks.ts';
import type { Queryable, Statement } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { claimWebhooks } from './webhook-queue-store.ts';
import { WebhookOutcomes } from './webhook-outcomes.ts';

test('a response that the database refuses to store is kept, and the webhook is not sent again', async () => {
  await using receiver = await startReceiver(204);
  await using t = await webhookTest();
  await t.register(receiver.url);
  const loop = await t.startLoop();
  await t.change(`alter table webhook_deliveries add constraint broken check (status = 'pending')`);
  const first = await t.emit();
  await waitFor(() => loop.keptCount === 1, { what: 'the outcome to be kept' });
  const behind = await t.emit();
  await t.change('alter table webhook_deliveries drop constraint broken');
  const left = () => t.db.query('select from webhook_queue');
  await waitFor(async () => (await left()).length === 0, { what: 'both to be delivered' });
  assert.deepEqual(receiver.ids(), [first, behind]);
  assert.equal(loop.keptCount, 0);
});

test('workers that settle failures of one endpoint at the same time count each of them once', async () => {
  await using t = await webhookTest();
  const { id: endpointId } = await t.register('http://127.0.0.1:9/');
  const [perWorker, workers] = [20, 4];
  await t.backlog(endpointId, perWorker * workers);
  const endpoint = { projectId: t.scope.projectId, endpointId, lowWaterMs: -Infinity };
  const claim = async () => {
    const leaseId = newId();
    const claimed = await claimWebhooks(t.db, leaseId, [{ ...endpoint, max: perWorker }]);
    return { leaseId, claimed };
  };
  const settle = async ({ leaseId, claimed }: Awaited<ReturnType<typeof claim>>) => {
    const outcomes = new WebhookOutcomes(t.db, {
      ...SETTLING,
      leaseId: () => leaseId,
      onSettled() {},
    });
    const attempt = { status: 500, latency_ms: 3, answer: '', error: null };
    const failure = { kind: 'failed', retryMs: 60_000, suspendMs: 0, attempt } as const;
    const settled: string[] = [];
    // Each half is one batch. Its first outcome has lost its lease.
    for (const [index, half] of [claimed.slice(0, 10), claimed.slice(10)].entries()) {
      const batch = half.map((one, at) => ({
        ...one,
        claim: one.claim + (index + at === 0 ? 1 : 0),
      }));
      const results = batch.map((one) => outcomes.settle({ ...one, ...failure }));
      settled.push(...(await Promise.all(results)));
    }
    return settled;
  };
  // All claim before the first one settles, because failures suspend the endpoint.
  const claims = await Promise.all(Array.from({ length: workers }, claim));
  const settled = (await Promise.all(claims.map(settle))).flat();
  const counts = Map.groupBy(settled, (result) => result);
  const retried = (perWorker - 1) * workers;
  assert.deepEqual(
    [counts.get('retried')?.length, counts.get('fenced')?.length],
    [retried, workers],
  );
  const [stored] = await t.db.query('select failures from webhook_endpoints');
  assert.deepEqual(stored, { failures: retried });
  const left = await t.db.query('select from webhook_queue where holder is not null');
  assert.equal(left.length, workers);
});

test('an outcome whose endpoint changes before it is written is written later, after a random pause each time', async () => {
  await using t = await webhookTest();
  const { id: endpointId } = await t.register('http://127.0.0.1:9/');
  await t.backlog(endpointId, 2);
  const endpoint = { projectId: t.scope.projectId, endpointId, lowWaterMs: -Infinity };
  const leaseId = newId();
  const claimed = await claimWebhooks(t.db, leaseId, [{ ...endpoint, max: 2 }]);
  const seen = { changes: 0, pauses: 0 };
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      const rows = await t.db.query<Row>(statement, values);
      const isReading = typeof statement === 'object' && statement.name === 'webhooks_health';
      if (!isReading || seen.changes === 3) return rows;
      seen.changes += 1;
      await t.db.query('update webhook_endpoints set failures = failures where id = $1', [
        endpointId,
      ]);
      return rows;
    },
  };
  const random = () => {
    seen.pauses += 1;
    return 0.5;
  };
  const outcomes = new WebhookOutcomes(queries, {
    ...SETTLING,
    world: { ...SETTLING.world, random },
    leaseId: () => leaseId,
    onSettled() {},
  });
  const attempt = { status: 500, latency_ms: 3, answer: '', error: null };
  const failure = { kind: 'failed', retryMs: 60_000, suspendMs: 0, attempt } as const;
  const settle = () => Promise.all(claimed.map((one) => outcomes.settle({ ...one, ...failure })));
  assert.deepEqual(await settle(), ['retried', 'retried']);
  assert.deepEqual(seen, { changes: 3, pauses: 3 });
});
