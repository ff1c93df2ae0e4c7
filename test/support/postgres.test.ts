/** The database that nearly every test uses is like that of a service. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import pg from 'pg';
import { emptyDatabase, testDatabase } from './postgres.ts';

test('a test database is migrated, used in the service role, and removed afterwards', async () => {
  const { address, db, ...rest } = await testDatabase();
  const [row] = await db.query<{ role: string; emails: number }>(
    'select current_user as role, (select count(*) from emails) as emails',
  );
  assert.deepEqual({ ...row }, { role: 'letterhaus_app', emails: 0 });
  await rest[Symbol.asyncDispose]();
  await assert.rejects(new pg.Client(address).connect(), { code: '3D000' });
});

test('the URL of a test database leads to it', async () => {
  await using database = await emptyDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query('select current_database() as name');
  await client.end();
  assert.match(rows[0].name, /^letterhaus_test_/);
});
