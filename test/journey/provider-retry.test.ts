/** An operator sees that a provider refuses our mail, and asks for a probe. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { OWN_NAME, startJourney } from '../support/journey.ts';
import { eventually, waitFor } from '../support/wait.ts';

// Usual waits: a minute until the first probe, and more after each further one.
const journey = await startJourney({ LETTERHAUS_RETRY_WAITS: '1h' }, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

const REPLY = '550 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org';

test('a provider that refuses us is listed with its reply and the page for delisting, and tried on request', async () => {
  const mx = await journey.mailServer('blocking.test', { phases: { rcpt: REPLY } });
  const ids: string[] = [];
  for (const name of ['jo', 'kim', 'lu']) {
    const id = await journey.send({ to: `${name}@blocking.test` });
    await journey.attempted(id);
    ids.push(id);
  }
  const [block] = (await service.cliJson('providers', 'list')).data;
  assert.partialDeepStrictEqual(block, {
    object: 'provider_block',
    provider: mx.name,
    about: 'address',
    subject: OWN_NAME,
    refusals: 3,
    sending_domains: ['acme.example'],
    category: 'reputation',
    delisting_page: 'https://check.spamhaus.org/',
  });
  assert.match((await service.cli('providers', 'list')).stdout, /blocked using zen\.spamhaus\.org/);
  // A worker gives back what it holds for a suspended provider.
  const queued = await waitFor(
    async () => {
      const [one] = (await service.cliJson('queue')).providers;
      return one.with_workers === 0 && one.due === 0 ? one : null;
    },
    { what: 'all mail to wait in the table' },
  );
  assert.deepEqual([queued.provider, queued.state], [mx.name, 'suspended']);
  const { body } = await journey.request('GET', '/v1/queue');
  assert.match(
    body.providers[0].limit.message,
    /refuses all mail from an IP address of this service/,
  );

  mx.set({});
  const probe = await service.cliJson('providers', 'retry', mx.name);
  assert.deepEqual([probe.blocks, probe.due], [1, 3]);
  for (const id of ids) {
    await waitFor(async () => (await journey.email(id)).status === 'delivered', {
      what: 'the email to be delivered',
    }).catch(async (error: Error) => {
      const rows = await service.sql('select * from provider_blocks');
      const queue = await service.sql(
        `select provider, attempts, claim, holder, due_at - app_now() as "in" from queue`,
      );
      throw new Error(`${error.message}: ${JSON.stringify([rows, queue], null, 1)}`);
    });
  }
  await eventually(async () =>
    assert.deepEqual((await service.cliJson('providers', 'list')).data, []),
  );
  const unknown = await service.cli('providers', 'retry', mx.name);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /refuses no mail of this service/);
});
