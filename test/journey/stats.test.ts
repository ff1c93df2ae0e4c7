/** Workers are killed around their commits, and the counts still match the stored emails. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runLoad } from '../support/load.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const KILLS = [
  'accept_before_commit=kill@3',
  'settle_before_commit=kill@2',
  'accept_after_commit=kill@3',
  'settle_after_commit=kill@2',
];
const EMAILS = 60;

const STORED = `
select (select count(*) from emails where environment = 'test')::int as emails,
       (select count(*) from recipients)::int as recipients,
       (select count(*) from events where type = 'email.delivered')::int as delivered,
       (select count(*) from events where type = 'email.bounced')::int as bounced`;

test('after workers were killed around commits, the counts are those of the stored emails', async () => {
  await using service = await startService({
    env: { LETTERHAUS_FAILPOINTS: KILLS.join(), LETTERHAUS_LIMIT_SENDING: '1000000/60' },
  });
  const from = 'Acme <hello@acme.test>';
  const to = (index: number) =>
    `${index % 4 === 0 ? 'bounced' : 'delivered'}+${index}@simulator.test`;
  const key = service.testKey;
  const kills = () => service.logs.match(/failpoint/g)?.length ?? 0;
  let accepted = 0;
  await waitFor(
    async () => {
      accepted += (await runLoad(service, { key, count: EMAILS, from, to })).accepted.length;
      return kills() >= KILLS.length;
    },
    { what: 'a worker to be killed at each failpoint', timeoutMs: 180_000 },
  );
  const isQueueEmpty = async () => (await service.sql('select from queue limit 1')).length === 0;
  await waitFor(isQueueEmpty, { what: 'all recipients to end', timeoutMs: 60_000 });
  const [stored] = await service.sql(STORED);
  assert.ok(stored.emails >= accepted && stored.bounced > 0);
  // The last killed worker may not have been replaced yet.
  const asked = () => service.request('GET', '/v1/stats').catch(() => false as const);
  const { body } = await waitFor(asked, { what: 'a worker to answer' });
  const [{ emails, recipients, delivered, bounced }] = body.totals;
  assert.deepEqual({ emails, recipients, delivered, bounced }, stored);
});
