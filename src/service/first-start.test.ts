/** Two nodes that initialise one empty database, and a first start that was interrupted. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { findCallers } from '../accounts/keys/key-store.ts';
import { hashApiKey } from '../accounts/keys/api-key.ts';
import { seedFirstStart } from './first-start.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { systemWorld } from './machine/system-world.ts';
import { testDatabase } from '../../test/support/postgres.ts';

const PARTS = {
  secrets: new SecretBox('a secret key of the tests, long enough'),
  world: systemWorld,
  config: { hostname: 'mail.acme.test', sources: [], domainsMax: 10, inboundPort: null },
};

test('two nodes that start together on an empty database initialise it once', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const both = await Promise.all([seedFirstStart(db, PARTS), seedFirstStart(db, PARTS)]);
  const [seeded, ...others] = both.filter((one) => one !== null);
  assert.ok(seeded);
  assert.deepEqual(others, []);
  const hash = hashApiKey(seeded.testKey);
  const caller = (await findCallers(db, [hash])).get(hash);
  assert.equal(caller?.environment, 'test');
  assert.equal(caller?.permission, 'full_access');
  assert.deepEqual(await db.query('select name, environment, status from domains'), [
    { name: 'acme.test', environment: 'test', status: 'verified' },
  ]);
});

test('an interrupted first start is completed by the next', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const first = await seedFirstStart(db, PARTS);
  await db.query('delete from api_keys');
  const second = await seedFirstStart(db, PARTS);
  assert.equal(second?.projectId, first?.projectId);
  assert.notEqual(second?.testKey, first?.testKey);
  assert.equal(await seedFirstStart(db, PARTS), null);
});
