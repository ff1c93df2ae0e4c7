/** The lists of the queue report have a length limit: many small hosts may not hide a large provider. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { readQueue } from './queue-report-store.ts';

test('a large provider is in the lists of the queue even when many single hosts have more mail', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const store = new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const to = [
    ...Array.from({ length: 40 }, (_, n) => `jo@stranger${n % 20}.test`),
    ...Array.from({ length: 3 }, () => 'jo@customer.test'),
    'jo@gmail.test',
  ];
  await acceptAll(
    store,
    to.map((one) => newEmail(sender, { to: [one], mayHandOver: false })),
  );
  await db.query(`update queue set provider = 'google' where provider = 'gmail.test'`);

  const report = await readQueue(db, {
    projectIds: [sender.projectId],
    environment: null,
    within: { projectId: null, environment: null },
    provider: null,
    limit: 5,
  });
  const names = report.providers.map(({ provider }) => provider);
  assert.deepEqual([names[0], names.at(-1), names.length], ['customer.test', 'google', 5]);
  assert.deepEqual([report.providerCount, report.total.waiting], [22, 44]);
});
