/** The index of the event stream, on a new database and on one that had events before the index. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeFirstSchema } from '../../test/support/first-schema.ts';
import { asOwner, emptyDatabase, migratedDatabase } from '../../test/support/postgres.ts';
import { buildStreamIndexes, isStreamIndexed } from './order-store.ts';
import { connectAsOwner } from '../database/database.ts';
import { migrate } from '../migration/migrate.ts';

test('a new database has the index at once, in every partition', async () => {
  await using database = await migratedDatabase();
  assert.equal(await asOwner(database.address, isStreamIndexed), true);
  assert.equal(await buildStreamIndexes(database.address), 0);
});

test('after an upgrade the index is built once, partition by partition, without blocking writers', async () => {
  await using database = await emptyDatabase();
  const { address } = database;
  await makeFirstSchema(address);
  // The migration would wait for killed workers.
  await asOwner(address, (db) => db.query('delete from nodes'));
  await migrate(address, { nowMs: Date.now(), acceptAnyDurability: true });
  assert.equal(await asOwner(address, isStreamIndexed), false);

  // An interruption leaves the name taken by an index that is not attached.
  const newest = `select max(inhrelid::regclass::text) as name from pg_inherits
                   where inhparent = 'events'::regclass`;
  const [row] = await asOwner(address, (db) => db.query<{ name: string }>(newest));
  await asOwner(address, (db) =>
    db.query(`create index ${row!.name}_by_commit on ${row!.name} (id)`),
  );
  // Building an index of the whole table would wait for this writer and block all others.
  const writer = await connectAsOwner(address, 'writer');
  await writer.query('begin');
  await writer.query(`select 1 from emails for update`);

  const [built, again] = await Promise.all([1, 2].map(() => buildStreamIndexes(address)));
  assert.ok(built! + again! >= 9, 'one for each week');
  assert.ok(built === 0 || again === 0, 'one machine at a time');
  await writer.query('commit');
  await writer.end();
  assert.equal(await asOwner(address, isStreamIndexed), true);
  assert.equal(await buildStreamIndexes(address), 0);
  const plan = await asOwner(address, (db) =>
    db.query<object>(`explain select from events
                       where hashtextextended(environment, uuid_hash_extended(project_id, 0)) = 1
                       order by xact_era, xact_id, subject_id, seq limit 1`),
  );
  assert.doesNotMatch(JSON.stringify(plan), /->\s+Sort\b|Seq Scan/);
});
