/** Compares what `upgrade-check` says about each migration with the locks and rewrites that PostgreSQL makes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { asOwner, emptyDatabase } from '../../test/support/postgres.ts';
import type { Queryable } from '../database/database.ts';
import { type BlockedAccess, readMigrationsAfter, parseMigration } from './effects.ts';
import { MIGRATIONS_DIR } from './schema-version.ts';

/** Lists tables with their files; a partition has the name of its parent. */
const TABLES = `
select oid::int as oid, coalesce(pg_partition_root(oid), oid)::regclass::text as name,
       pg_relation_filenode(oid)::text as file
  from pg_class
 where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')`;

type Table = { oid: number; name: string; file: string | null };

const LOCKS = `
select relation::int as oid,
       max(case mode when 'AccessExclusiveLock' then 2 when 'ExclusiveLock' then 2
                     when 'ShareRowExclusiveLock' then 1 when 'ShareLock' then 1 else 0 end) as strength
  from pg_locks where pid = pg_backend_pid() and locktype = 'relation' and granted
 group by relation`;

const NAMES: readonly BlockedAccess[] = ['nothing', 'writes', 'everything'];

/** Returns PostgreSQL's locks and rewrites of the tables that existed before, in a transaction that commits. */
async function measure(
  db: Queryable,
  sql: string,
): Promise<Record<string, BlockedAccess | 'rewritten'>> {
  const before = await db.query<Table>(TABLES);
  await db.query('begin');
  await db.query(sql);
  const locks = await db.query<{ oid: number; strength: number }>(LOCKS);
  const files = new Map((await db.query<Table>(TABLES)).map(({ oid, file }) => [oid, file]));
  await db.query('commit');
  const done: Record<string, BlockedAccess | 'rewritten'> = {};
  // A truncated table has a new file, too, to which no row is written.
  const truncated = /^truncate (\w+);/m.exec(sql)?.[1];
  for (const { oid, name, file } of before) {
    const strength = locks.find((lock) => lock.oid === oid)?.strength ?? 0;
    const hasNewFile = files.has(oid) && files.get(oid) !== file;
    if (hasNewFile && name !== truncated) done[name] = 'rewritten';
    else if (strength > 0 && done[name] !== 'rewritten') done[name] = NAMES[strength]!;
  }
  return done;
}

test('the locks and rewrites found for each migration match the ones in PostgreSQL', async () => {
  await using database = await emptyDatabase();
  await asOwner(database.address, async (db) => {
    await db.query('create table schema_migrations (version int, run_at timestamptz)');
    for (const { file, effects } of readMigrationsAfter(0, MIGRATIONS_DIR)) {
      const found = Object.fromEntries(
        effects
          .filter(({ blocks }) => blocks !== 'nothing')
          .map(({ table, blocks, rewrites }) => [table, rewrites ? 'rewritten' : blocks]),
      );
      const measured = await measure(db, readFileSync(join(MIGRATIONS_DIR, file), 'utf8'));
      assert.deepEqual(found, measured, file);
    }
  });
});

const read = (sql: string) => parseMigration(9001, '9001.do.next.sql', sql);

test('a migration says what it does and why it needs a backup', () => {
  const sql = `-- Splits the content of emails. Older code reads
-- both.
--
-- Needs a backup first: it rewrites the content of all mail.
alter table contents alter column html type bytea using html::bytea;
update installation set schema_required = greatest(schema_required, 9001);`;
  const { effects, ...rest } = read(sql);
  assert.deepEqual(rest, {
    version: 9001,
    file: '9001.do.next.sql',
    summary: 'Splits the content of emails.',
    backupReason: 'it rewrites the content of all mail',
    schemaRequired: 9001,
  });
  const [contents, installation] = effects;
  assert.deepEqual(contents, {
    table: 'contents',
    blocks: 'everything',
    rewrites: true,
    readsAll: false,
    changesRows: false,
  });
  assert.equal(installation?.changesRows, true);
});

test('indexes and constraints read the rows, new tables and functions touch nothing', () => {
  const tables = (sql: string) =>
    read(sql).effects.map(({ table, blocks, readsAll }) => [table, blocks, readsAll]);
  assert.deepEqual(tables('create unique index a_b on a (b);'), [['a', 'writes', true]]);
  assert.deepEqual(tables('alter table a add constraint c check (b > 0);'), [
    ['a', 'everything', true],
  ]);
  assert.deepEqual(tables('alter table a add constraint c check (b > 0) not valid;'), [
    ['a', 'everything', false],
  ]);
  assert.deepEqual(tables('alter table a validate constraint c;'), [['a', 'nothing', true]]);
  assert.deepEqual(tables('create table a (b uuid references c);\ncreate index on a (b);'), [
    ['c', 'writes', false],
  ]);
  const inFunction = 'create function f() returns void language sql as $$ update a set b = 1; $$;';
  assert.deepEqual(tables(inFunction), []);
});
