/** LETTERHAUS_OPERATOR_WEBHOOK: the events of the installation, signed, at a URL of the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clearCondition, raiseCondition } from '../../src/operator/condition-store.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { startReceiver, verified } from '../support/webhook-receiver.ts';

const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;

test("the operator's webhook gets beginnings and ends, signed with its secret, and none after it was unset", async () => {
  await using receiver = await startReceiver(503);
  const env = {
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_OPERATOR_WEBHOOK: receiver.url,
    LETTERHAUS_OPERATOR_WEBHOOK_SECRET: secretOf(1),
  };
  await using service = await startService({ env });
  const degraded = { type: 'domain.degraded', subject: 'acme.example' } as const;
  const texts = { message: 'A record of acme.example is missing.', remedy: 'Publish it.' };
  await asOwner(service.address(), (db) => raiseCondition(db, { ...degraded, ...texts }));
  const [refused] = await receiver.waitForCount(1, { timeoutMs: 60_000 });
  receiver.behaviour = 200;
  const [, retried] = await receiver.waitForCount(2, { timeoutMs: 60_000 });
  assert.equal(retried!.id, refused!.id, 'it is retried like all others');
  verified(secretOf(1), retried!);
  assert.equal(retried!.event.type, 'domain.degraded');
  assert.equal(retried!.event.data.remedy, 'Publish it.');
  assert.equal((await service.request('GET', '/v1/webhooks')).body.data.length, 0);

  Object.assign(service.env, { LETTERHAUS_OPERATOR_WEBHOOK_SECRET: secretOf(2) });
  await service.restart();
  await asOwner(service.address(), (db) => clearCondition(db, degraded));
  const [, , ended] = await receiver.waitForCount(3, { timeoutMs: 60_000 });
  verified(secretOf(2), ended!);
  assert.equal(ended!.event.type, 'domain.recovered');

  Object.assign(service.env, { LETTERHAUS_OPERATOR_WEBHOOK: '' });
  await service.restart();
  const left = `select from webhook_endpoints where url = $1`;
  assert.deepEqual(await service.sql(left, [receiver.url]), []);
});

test('a URL that may not be reached is reported at the start, and mail continues', async () => {
  await using service = await startService({
    env: {
      LETTERHAUS_OPERATOR_WEBHOOK: 'http://10.0.0.1/hook',
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '',
      LETTERHAUS_LOG: 'info',
    },
  });
  await service.logged(/LETTERHAUS_OPERATOR_WEBHOOK gets no events/);
  assert.equal(typeof (await service.send()), 'string');
});
