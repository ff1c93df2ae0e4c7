/** The service disables a webhook after five days, and notifies its project and the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver, verified } from '../support/webhook-receiver.ts';

test('a webhook that failed for five days is in the log, the stream, the other webhooks, the metric and the list', async () => {
  await using broken = await startReceiver(500);
  await using other = await startReceiver();
  await using service = await startService({
    env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1', LETTERHAUS_LOG: 'info' },
  });
  const register = async (url: string, events?: string[]) =>
    (await service.request('POST', '/v1/webhooks', { body: { url, events } })).body;
  const { id } = await register(`${broken.url}/hook?token=secret`, ['email.delivered']);
  const { signing_secret: secret } = await register(other.url, ['webhook.disabled']);
  await service.send();
  await broken.waitForCount(1);
  const isRetried = async () =>
    (await service.request('GET', `/v1/webhooks/${id}`)).body.failing_since !== null;
  await waitFor(isRetried, { what: 'the failure to be stored' });
  await service.clock.advance({ hours: 5 * 24 + 1 });

  const [received] = await other.waitForCount(1, { timeoutMs: 60_000 });
  verified(secret, received!);
  assert.equal(received!.event.type, 'webhook.disabled');
  const { data } = received!.event;
  assert.equal(data.webhook_id, id);
  assert.equal(data.url, `${broken.url}/hook?token=secret`);
  assert.match(data.reason, /^Every attempt since .* failed\.$/);

  const { body } = await service.request('GET', '/v1/events?types=webhook.disabled');
  assert.deepEqual(
    body.data.map((event: { id: string }) => event.id),
    [received!.id],
  );
  const said =
    /^.*"level":"warn".*"event":"webhook.disabled".*letterhaus webhooks update \S+ --enable.*$/m;
  await service.logged(said);
  assert.doesNotMatch(said.exec(service.logs)![0], /token=secret/);
  await service.counted(/^letterhaus_operator_conditions{type="webhook.disabled"} 1$/m);
  const shown = await service.cli('attention');
  assert.match(shown.stdout, new RegExp(`webhook\\.disabled +${id}`));

  broken.behaviour = 200;
  await service.request('PATCH', `/v1/webhooks/${id}`, { body: { status: 'enabled' } });
  const isQuiet = async () => (await service.cli('attention')).code === 0;
  await waitFor(isQuiet, { what: 'the condition to end', timeoutMs: 60_000 });
  assert.equal(other.received.length, 1, 'the project has one event');
});
