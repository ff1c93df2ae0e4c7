/** A batch whose worker is killed, or whose database becomes unavailable: all of its emails are stored, or none. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled, duplicates } from '../support/load.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import type { ApiResponse } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const SIZE = 100;

const database = await proxiedDatabase();
const scene = await newScene({
  database,
  args: ['--workers', '1'],
  env: { LETTERHAUS_FAILPOINTS: 'accept_before_commit=kill,accept_after_commit=kill' },
});
after(async () => {
  await scene[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});
const { service, mx, key } = scene;

function post(idempotencyKey: string, validation = 'strict'): Promise<ApiResponse> {
  const body = Array.from({ length: SIZE }, (_, index) => ({
    from: FROM,
    to: to(index),
    subject: `Hello ${index}`,
    text: 'Hello',
  }));
  const headers = { 'idempotency-key': idempotencyKey, 'x-batch-validation': validation };
  return service.request('POST', '/v1/emails/batch', { key, body, headers });
}

const stored = async () =>
  (await service.sql('select count(*)::int as n from emails'))[0].n as number;
const workerIsBack = () =>
  waitFor(
    () =>
      service.request('GET', '/readyz', { key: null }).then(
        ({ status }) => status === 200,
        () => false,
      ),
    {
      what: 'a worker to be ready',
    },
  );
const idsOf = ({ body }: ApiResponse): string[] => body.data.map(({ id }: { id: string }) => id);

test('when the service is killed around the commit of a batch, repeating it makes one batch, which arrives once', async () => {
  await assert.rejects(post('killed'));
  assert.equal(await stored(), 0);
  await workerIsBack();
  await assert.rejects(post('killed'));
  assert.equal(await stored(), SIZE);
  await workerIsBack();
  const repeated = await post('killed');
  assert.deepEqual([repeated.status, await stored()], [200, SIZE]);
  const ids = idsOf(repeated);
  await waitForArrivals(mx, ids);
  await waitForEmptyQueue(service);
  await assertSettled(service, ids);
  assert.equal(duplicates(arrivals(mx)), 0);
});

for (const validation of ['strict', 'permissive']) {
  test(`a ${validation} batch is refused during a database outage, and its repetition accepted once`, async () => {
    const before = await stored();
    await database.proxy.refuse();
    const refused = await post(`away ${validation}`, validation);
    assert.equal(refused.status, 503, refused.text);
    assert.match(refused.body.error.message, /nothing was accepted|may have been accepted/);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    await database.proxy.heal();
    const accepted = await waitFor(
      () => post(`away ${validation}`, validation).then((one) => one.status < 300 && one),
      { what: 'the batch to be accepted' },
    );
    assert.equal(await stored(), before + SIZE);
    const again = await post(`away ${validation}`, validation);
    assert.deepEqual([again.status, again.text], [200, accepted.text]);
    await waitForArrivals(mx, idsOf(accepted));
  });
}
