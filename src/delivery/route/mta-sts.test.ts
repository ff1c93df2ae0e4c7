/**
 * Shows what transport-security-store.ts keeps in the database: MTA-STS policies, and the counts for TLS reports.
 * src/net/tls/mta-sts.test.ts has look-ups and fetches.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import {
  deleteExpiredStsPolicies,
  listPoliciesToRenew,
  StsPolicies,
  addTlsResults,
  deleteOldTlsResults,
  readTlsResults,
} from './transport-security-store.ts';

const { db, ...database } = await testDatabase();
after(() => database[Symbol.asyncDispose]());

const policy = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 3_600 } as const;
const pass = (time: string) => db.query(`update clock set skew = skew + $1::interval`, [time]);

test('a policy is used until it expires, even after a failed fetch', async () => {
  const policies = new StsPolicies(db);
  assert.deepEqual(await policies.load('a.test'), { cached: null, failedAgoMs: null });
  await policies.save('a.test', '1', policy);
  await policies.saveFailure('a.test');
  const [stored, none] = await Promise.all([policies.load('a.test'), policies.load('b.test')]);
  assert.deepEqual([stored.cached?.id, stored.cached?.policy, none.cached], ['1', policy, null]);
  assert.ok(stored.failedAgoMs !== null && stored.failedAgoMs < 60_000);
  await policies.save('a.test', '2', policy);
  assert.deepEqual((await policies.load('a.test')).failedAgoMs, null);
  await pass('61 minutes');
  assert.equal((await policies.load('a.test')).cached, null);
});

test('a failure without an earlier policy is stored', async () => {
  const policies = new StsPolicies(db);
  await policies.saveFailure('c.test');
  const { cached, failedAgoMs } = await policies.load('c.test');
  assert.deepEqual([cached, failedAgoMs !== null], [null, true]);
});

test('policies in use are renewed after a day, and expired ones are deleted', async () => {
  const policies = new StsPolicies(db);
  await policies.save('d.test', '1', { ...policy, maxAgeS: 3 * 86_400 });
  assert.deepEqual(await listPoliciesToRenew(db, 10), []);
  await pass('25 hours');
  assert.deepEqual(await listPoliciesToRenew(db, 10), ['d.test']);
  await policies.saveFailure('d.test');
  assert.deepEqual(
    await listPoliciesToRenew(db, 10),
    [],
    'no retry within the hour after a failure',
  );
  assert.equal(await deleteExpiredStsPolicies(db, 10), 2);
  assert.ok((await policies.load('d.test')).cached !== null);
});

test('TLS results are summed by day, domain, policy and kind, and kept for a month', async () => {
  const of = (result: string, sessions: number) =>
    ({ domain: 'a.test', policy: 'sts', result, sessions }) as const;
  await addTlsResults(db, [of('success', 2), of('validation-failure', 1)]);
  await addTlsResults(db, [of('success', 3)]);
  const read = async (days: number) =>
    (await readTlsResults(db, { days, domain: 'a.test', limit: 10 })).map(
      ({ result, sessions }) => `${result} ${sessions}`,
    );
  assert.deepEqual(await read(1), ['success 5', 'validation-failure 1']);
  await pass('2 days');
  assert.deepEqual(await read(1), []);
  assert.deepEqual(await read(7), ['success 5', 'validation-failure 1']);
  assert.equal(await deleteOldTlsResults(db, 10), 0);
  await pass('30 days');
  assert.equal(await deleteOldTlsResults(db, 10), 2);
});
