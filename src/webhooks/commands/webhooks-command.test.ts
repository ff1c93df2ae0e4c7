/** `letterhaus webhooks` beside a running service: each command and its errors. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startService } from '../../../test/support/service.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { startReceiver, verified } from '../../../test/support/webhook-receiver.ts';

const env = { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' };
const service = await startService({ env });
const receiver = await startReceiver();
after(async () => {
  await service[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const json = (...words: string[]) => service.cliJson('webhooks', ...words);
const text = async (...words: string[]): Promise<string> => {
  const { code, stdout, stderr } = await service.cli('webhooks', ...words);
  assert.equal(code, 0, stderr);
  return stdout;
};

const webhook = await json(
  'add',
  receiver.url,
  '--environment',
  'test',
  '--events',
  'email.delivered',
);
const { id } = webhook;

test('a webhook is shown, and a change affects only the given fields', async () => {
  assert.match(await text('show', id), /^events +email\.delivered$/m);
  const changed = await json('update', id, '--events', 'email.delivered,email.bounced');
  assert.deepEqual(
    [changed.url, changed.events, changed.status],
    [receiver.url, ['email.delivered', 'email.bounced'], 'enabled'],
  );
  assert.equal((await json('update', id, '--disable')).status, 'disabled');
  const all = await json('update', id, '--events', 'all', '--enable');
  assert.deepEqual([all.events, all.status], [null, 'enabled']);
  assert.match(
    await text('update', id, '--events', 'email.delivered'),
    /receives email\.delivered/,
  );
  for (const words of [[], ['--enable', '--disable'], ['--url', 'nowhere']]) {
    assert.equal((await service.cli('webhooks', 'update', id, ...words)).code, 2, words.join());
  }
});

test('a test prints the response of the endpoint and fails when it is an error', async () => {
  assert.match(await text('test', id), /is delivered: status 200 after \d+ ms/);
  receiver.behaviour = 500;
  const failed = await service.cli('webhooks', 'test', id);
  assert.deepEqual([failed.code, failed.stderr], [1, '']);
  assert.match(failed.stdout, /is failed: status 500/);
  receiver.behaviour = 200;
});

test('deliveries are listed, one is shown with its attempts, and they are sent again', async () => {
  const emailId = await service.send();
  const sent = () => receiver.received.filter(({ event }) => event.data.email_id === emailId);
  await waitFor(() => sent().length === 1, { what: 'the webhook' });
  const eventId = sent()[0]!.id;
  const list = async (...words: string[]) => (await json('deliveries', id, ...words)).data;
  const only = ['--type', 'email.delivered', '--status', 'delivered'];
  await waitFor(async () => (await list(...only)).length === 1, { what: 'the outcome' });
  assert.equal((await list('--type', 'webhook.test', '--limit', '1')).length, 1);
  assert.match(
    await text('deliveries', id, '--limit', '1'),
    /More deliveries: --after [0-9a-f-]{36}/,
  );
  const shown = await text('deliveries', id, eventId);
  assert.match(shown, /^event +email\.delivered$/m);
  assert.match(shown, /  200 +\d+ ms +200$/m);

  assert.match(await text('replay', id, eventId), /is sent again now/);
  await waitFor(() => sent().length === 2, { what: 'the delivery again' });
  const replay = await json('replay', id, '--since', '1h', '--status', 'delivered');
  const progress = () => json('replay', id, '--progress', replay.id);
  await waitFor(async () => (await progress()).status === 'completed', { what: 'its end' });
  await waitFor(() => sent().length === 3, { what: 'the delivery once more' });
  assert.deepEqual(new Set(sent().map((one) => one.id)), new Set([eventId]));
  for (const words of [[], [eventId, '--since', '1h'], ['--since', 'soon']]) {
    assert.equal((await service.cli('webhooks', 'replay', id, ...words)).code, 2, words.join());
  }
  const none = await service.cli('webhooks', 'deliveries', id, id);
  assert.deepEqual([none.code, /no delivery with this id/.test(none.stderr)], [1, true]);
});

test('a rotated secret is shown once, and both secrets sign', async () => {
  const { signing_secret: next } = await json('rotate-secret', id);
  const count = receiver.received.length;
  await text('test', id);
  const received = receiver.received[count]!;
  for (const secret of [webhook.signing_secret, next]) verified(secret, received);
  assert.ok(!(await text('show', id)).includes('whsec_'));
});

test('a URL of this machine is refused with the variable that permits it', async () => {
  await using strict = await startService();
  for (const url of ['http://localhost:4000', 'https://127.0.0.1/', 'https://localhost/hooks']) {
    const { code, stderr } = await strict.cli('webhooks', 'add', url);
    assert.equal(code, 2);
    assert.match(
      stderr,
      /^letterhaus: url: .*"webhooks listen .*LETTERHAUS_ALLOW_PRIVATE_NETWORKS=1 permits/,
      url,
    );
  }
  const other = await strict.cli('webhooks', 'add', 'https://user:word@acme.test/');
  assert.doesNotMatch(other.stderr, /LETTERHAUS_ALLOW/);
});
