/**
 * Migrations of real databases: nodes that start at once, long readers, frozen nodes, newer schemas.
 * test/journey/upgrade.test.ts migrates the first schema with its rows.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../test/support/embedded.ts';
import { startForgetfulEngine } from '../../test/support/unsynced-engine.ts';
import { asOwner, emptyDatabase, testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import {
  APP_ROLE,
  clientQueries,
  connectAsOwner,
  DatabaseUnavailable,
  type Queryable,
} from '../database/database.ts';
import { lockMigrations, createPartitions, migrate } from './migrate.ts';
import { ensurePartitions } from '../database/partitions.ts';
import { firstUuidAt, newId } from '../database/ids.ts';
import { expireWorker, registerWorker } from '../delivery/queue/worker-store.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { MIGRATIONS_DIR, readRequiredSchema } from './schema-version.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:00Z');
const WEEK_MS = 7 * 24 * 3600_000;
const OPTIONS = { nowMs: NOW_MS, acceptAnyDurability: true };

test('an empty database is migrated once, however many nodes start at once', async () => {
  await using database = await emptyDatabase();
  const results = await Promise.all([1, 2, 3].map(() => migrate(database.address, OPTIONS)));
  const applied = results.map((result) => result.applied.length);
  assert.equal(applied.filter((count) => count > 0).length, 1);
  assert.equal(new Set(results.map(({ version }) => version)).size, 1);
});

test('a node that is frozen while it migrates does not keep others from starting', async () => {
  await using database = await testDatabase();
  const frozen = await connectAsOwner(database.address, 'frozen');
  const ended = once(frozen, 'error');
  await lockMigrations(clientQueries(frozen), 200);
  const { applied } = await migrate(database.address, OPTIONS);
  assert.deepEqual(applied, []);
  const [error] = await ended;
  assert.equal(error.code, '57P05');
});

function nextVersion(files: Record<string, string>): { folder: string } {
  const folder = temporaryFolder();
  cpSync(MIGRATIONS_DIR, folder, { recursive: true });
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql);
  return { folder };
}

const columnsOf = (db: Queryable, name: string): Promise<object[]> =>
  db.query(`select from pg_attribute where attrelid = 'emails'::regclass and attname = $1`, [name]);

test('a database with additive newer migrations is used, one that requires a newer version is refused', async () => {
  await using database = await testDatabase();
  const { version } = await migrate(database.address, OPTIONS);
  const next = nextVersion({
    '9001.do.grown.sql': 'alter table emails add column grown text;',
    '9002.do.asks.sql': 'update installation set schema_required = 9001;',
  });
  await asOwner(database.address, async (db) => {
    await db.query(`insert into schema_migrations (version, name, md5, run_at)
                    values (9001, 'grown', '', now())`);
    const { applied, version: present } = await migrate(database.address, OPTIONS);
    assert.deepEqual([applied, present], [[], 9001]);
  });
  await migrate(database.address, { ...OPTIONS, ...next });
  await assert.rejects(migrate(database.address, OPTIONS), (error: Error) => {
    assert.ok(error instanceof RefusedDatabase);
    const knows = `requires schema 9001, this version supports ${version}. Start the newer version.`;
    assert.ok(error.message.endsWith(knows), error.message);
    return true;
  });
});

test('a migration behind a long reader does not block others, and is applied when the reader ends', async () => {
  await using database = await testDatabase();
  const next = nextVersion({ '9001.do.grown.sql': 'alter table emails add column grown text;' });
  const logged: string[] = [];
  await asOwner(database.address, async (reader) => {
    await reader.query(`set application_name = 'nightly backup'`);
    await reader.query('begin');
    await reader.query('select from emails limit 1');
    const log = (sentence: string): unknown => logged.push(sentence);
    const migrating = migrate(database.address, { ...OPTIONS, ...next, log });
    // While the migration waits for its lock, no other statement on the table would be answered.
    await waitFor(() => logged.length >= 2, { what: 'the migration to be tried twice' });
    const writing = database.db.query(`delete from emails where created_at < '2000-01-01'`);
    await writing;
    assert.deepEqual(await columnsOf(database.db, 'grown'), []);
    await reader.query('commit');
    assert.deepEqual(
      (await migrating).applied.map((file) => basename(file)),
      ['9001.do.grown.sql'],
    );
  });
  assert.equal((await columnsOf(database.db, 'grown')).length, 1);
  const blocker =
    /^migration 9001\.do\.grown\.sql waits for process \d+ \(nightly backup, for \d+ s\); the next try is in 1 s$/;
  assert.match(logged[0]!, blocker);
});

test('a migration that waits too long for a lock is given up, and names the blocking process', async () => {
  await using database = await testDatabase();
  const next = nextVersion({ '9001.do.grown.sql': 'alter table emails add column grown text;' });
  await asOwner(database.address, async (reader) => {
    await reader.query(`set application_name = 'nightly backup'`);
    await reader.query('begin');
    await reader.query('select from emails limit 1');
    const migrating = migrate(database.address, { ...OPTIONS, ...next, triesMax: 1 });
    await assert.rejects(migrating, (error: Error) => {
      assert.ok(error instanceof RefusedDatabase);
      assert.match(
        error.message,
        /waits for process \d+ \(nightly backup, .* too long\. .* start again\.$/,
      );
      return true;
    });
  });
});

test('each migration is a transaction: those before a failing one stay applied, and the next start continues', async () => {
  await using database = await testDatabase();
  const grown = { '9001.do.grown.sql': 'alter table emails add column grown text;' };
  const failing = nextVersion({
    ...grown,
    '9002.do.more.sql': 'alter table emails add column more text; select 1 / 0;',
  });
  await assert.rejects(migrate(database.address, { ...OPTIONS, ...failing }), /division by zero/);
  const columns = async (): Promise<number[]> => [
    (await columnsOf(database.db, 'grown')).length,
    (await columnsOf(database.db, 'more')).length,
  ];
  assert.deepEqual(await columns(), [1, 0]);
  const mended = nextVersion({
    ...grown,
    '9002.do.more.sql': 'alter table emails add column more text;',
  });
  const { applied } = await migrate(database.address, { ...OPTIONS, ...mended });
  assert.deepEqual(
    applied.map((file) => basename(file)),
    ['9002.do.more.sql'],
  );
  assert.deepEqual(await columns(), [1, 1]);
});

test('before something is removed, workers that need it get time to end', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const id = newId();
  await registerWorker(db, { id, instance: newId(), host: 'here', pid: 1 });
  const next = nextVersion({
    '9001.do.asks.sql': 'update installation set schema_required = 9001;',
    '9002.do.shrunk.sql': 'drop table clock_of_old; ',
  });
  await asOwner(database.address, (owner) => owner.query('create table clock_of_old ()'));
  const logged: string[] = [];
  const log = (sentence: string): unknown => logged.push(sentence);
  const migrating = migrate(database.address, { ...OPTIONS, ...next, log });
  await waitFor(() => logged.length > 0, { what: 'the migration to wait' });
  assert.deepEqual(logged, [
    'waiting for 1 workers of an older version to stop before the next migration',
  ]);
  assert.equal(await readRequiredSchema(db), 9001);
  const [present] = await db.query(`select from pg_tables where tablename = 'clock_of_old'`);
  assert.ok(present, 'nothing is taken away yet');
  await expireWorker(db, { id, beat: null });
  assert.equal((await migrating).version, 9002);
});

test('a server that may lose commits is refused unless the operator permits it', async () => {
  await using engine = await startForgetfulEngine(temporaryFolder(), ['fsync', 'full_page_writes']);
  const address = engine.address('postgres');
  const strict = { nowMs: NOW_MS, acceptAnyDurability: false };
  await assert.rejects(migrate(address, strict), (error: Error) => {
    assert.ok(error instanceof RefusedDatabase);
    assert.match(error.message, /does not guarantee .* \(fsync and full_page_writes not on\)/);
    assert.match(error.message, /LETTERHAUS_ACCEPT_DATABASE_DURABILITY=1/);
    return true;
  });
  const tables = `select from pg_tables where schemaname = 'public'`;
  assert.deepEqual(await asOwner(address, (db) => db.query(tables)), [], 'nothing was made');
  // Roles belong to the whole server: a migration of another database may be creating ours now.
  await asOwner(address, (db) => db.query('create database another'));
  const role = await asOwner(address, async (db) => {
    await db.query('begin');
    await db.query(`create role ${APP_ROLE} nologin`);
    await db.query(`grant ${APP_ROLE} to current_user`);
    const migrating = migrate(engine.address('another'), OPTIONS);
    const waits = 'select from pg_locks where not granted';
    await waitFor(async () => (await db.query(waits)).length > 0, { what: 'the other to wait' });
    await db.query('commit');
    return (await migrating).role;
  });
  assert.equal(role, APP_ROLE);
});

test('the service role can change rows and cannot drop tables or partitions', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const [partition] = await db.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'emails'::regclass`,
  );
  for (const sql of [
    'drop table queue',
    'drop table emails',
    `drop table ${partition!.name}`,
    `alter table emails detach partition ${partition!.name}`,
    'alter table queue add column x int',
    'truncate queue',
    'create table mine (id int)',
    'drop schema public cascade',
  ]) {
    await assert.rejects(db.query(sql), /must be owner|permission denied/, sql);
  }
  await db.query('delete from emails');
});

test('partitions exist for the next eight weeks, and one more a week later', async () => {
  await using database = await emptyDatabase();
  await migrate(database.address, OPTIONS);
  const insert = `insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
                  values (gen_random_uuid(), 'live', $1, 1, $1, 'x', now(), '{}')`;
  await asOwner(database.address, async (db) => {
    for (let week = -1; week <= 8; week += 1) {
      await db.query(insert, [firstUuidAt(NOW_MS + week * WEEK_MS)]);
    }
    const ninth = [firstUuidAt(NOW_MS + 9 * WEEK_MS)];
    await assert.rejects(db.query(insert, ninth), /no partition/);
    await Promise.all([1, 2].map(() => createPartitions(database.address, NOW_MS + WEEK_MS)));
    await db.query(insert, ninth);
    await ensurePartitions(db, NOW_MS + WEEK_MS);
  });
});

test('the queues are vacuumed after a number of dead rows, regardless of size', async () => {
  await using database = await testDatabase();
  for (const table of ['queue', 'webhook_queue']) {
    const [row] = await database.db.query<{ settings: string[] }>(
      `select reloptions as settings from pg_class where oid = $1::regclass`,
      [table],
    );
    const settings = Object.fromEntries(row!.settings.map((setting) => setting.split('=')));
    assert.equal(settings.autovacuum_vacuum_scale_factor, '0', table);
    assert.ok(Number(settings.autovacuum_vacuum_threshold) <= 5_000, table);
    assert.equal(settings.autovacuum_vacuum_insert_scale_factor, '0', table);
    assert.equal(settings.autovacuum_analyze_scale_factor, '0', table);
  }
});

test('a server that accepts the connection and does not respond is given up', async () => {
  await using silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const address = { host: '127.0.0.1', port, user: 'x', database: 'x' };
  await assert.rejects(migrate(address, OPTIONS), DatabaseUnavailable);
});
