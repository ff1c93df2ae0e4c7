import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startReceiver } from '../../../test/support/webhook-receiver.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { webhookTest } from '../../../test/support/webhooks.ts';

test('a response that the database refuses to store is kept, and the webhook is not sent again', async () => {
  await using receiver = await startReceiver(204);
  await using t = await webhookTest();
  await t.register(receiver.url);
  const loop = await t.startLoop();
  await t.change(`alter table webhook_deliveries add constraint broken check (status = 'pending')`);
  const first = await t.emit();
  await waitFor(() => loop.unsettled === 1, { what: 'the outcome to be kept' });
  const behind = await t.emit();
  await t.change('alter table webhook_deliveries drop constraint broken');
  const left = () => t.db.query('select from webhook_queue');
  await waitFor(async () => (await left()).length === 0, { what: 'both to be delivered' });
  assert.deepEqual(receiver.ids(), [first, behind]);
  assert.equal(loop.unsettled, 0);
});
