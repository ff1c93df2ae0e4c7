import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { temporaryFolder } from '../../test/support/embedded.ts';
import { startForgetfulEngine } from '../../test/support/forgetful-engine.ts';
import { emptyDatabase, testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import {
  APP_ROLE,
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  DatabaseUnavailable,
  type Queryable,
} from './database.ts';
import { makePartitions, migrate, MigrationRefused } from './migrate.ts';
import { ensurePartitions, firstUuidOf } from './partitions.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:00Z');
const WEEK_MS = 7 * 24 * 3600_000;
const OPTIONS = { nowMs: NOW_MS, acceptAnyDurability: true };

async function asOwner<Result>(
  address: DatabaseAddress,
  work: (db: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await connectAsOwner(address, 'test');
  try {
    return await work(clientQueries(client));
  } finally {
    await client.end();
  }
}

test('an empty database is migrated once, however many nodes start at once', async () => {
  await using database = await emptyDatabase();
  const results = await Promise.all([1, 2, 3].map(() => migrate(database.address, OPTIONS)));
  const applied = results.map((result) => result.applied.length);
  assert.equal(applied.filter((count) => count > 0).length, 1);
  assert.equal(new Set(results.map(({ version }) => version)).size, 1);
});

test('a database that a newer version has migrated is refused, with the way out', async () => {
  await using database = await testDatabase();
  await asOwner(database.address, (db) =>
    db.query(`insert into schema_migrations (version, name, md5, run_at)
              values (9999, 'of-tomorrow', '', now())`),
  );
  await assert.rejects(migrate(database.address, OPTIONS), (error: Error) => {
    assert.ok(error instanceof MigrationRefused);
    assert.match(error.message, /has schema 9999, this version of Posthorn knows \d+\./);
    assert.match(error.message, /Start the newer version that migrated it/);
    return true;
  });
});

test('a server that may forget commits is refused, unless the operator vouches for it', async () => {
  await using engine = await startForgetfulEngine(temporaryFolder(), ['fsync', 'full_page_writes']);
  const address = engine.address('postgres');
  const strict = { nowMs: NOW_MS, acceptAnyDurability: false };
  await assert.rejects(migrate(address, strict), (error: Error) => {
    assert.ok(error instanceof MigrationRefused);
    assert.match(error.message, /does not promise .* \(fsync and full_page_writes not on\)/);
    assert.match(error.message, /POSTHORN_ACCEPT_DATABASE_DURABILITY=1/);
    return true;
  });
  const tables = `select from pg_tables where schemaname = 'public'`;
  assert.deepEqual(await asOwner(address, (db) => db.query(tables)), [], 'nothing was made');
  // Roles belong to the whole server: another database's migration may be making ours just now.
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

test('the service gets rows to work with, and neither tables nor partitions to drop', async () => {
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

test('mail of the next eight weeks finds its partitions; a week later there is one more', async () => {
  await using database = await emptyDatabase();
  await migrate(database.address, OPTIONS);
  const insert = `insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
                  values (gen_random_uuid(), 'live', $1, 1, $1, 'x', now(), '{}')`;
  await asOwner(database.address, async (db) => {
    for (let week = -1; week <= 8; week += 1) {
      await db.query(insert, [firstUuidOf(NOW_MS + week * WEEK_MS)]);
    }
    const ninth = [firstUuidOf(NOW_MS + 9 * WEEK_MS)];
    await assert.rejects(db.query(insert, ninth), /no partition/);
    await Promise.all([1, 2].map(() => makePartitions(database.address, NOW_MS + WEEK_MS)));
    await db.query(insert, ninth);
    await ensurePartitions(db, NOW_MS + WEEK_MS);
  });
});

test('the queues are vacuumed after a number of dead rows, however long they are', async () => {
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

test('a server that takes the connection and says nothing is given up', async () => {
  await using silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const address = { host: '127.0.0.1', port, user: 'x', database: 'x' };
  await assert.rejects(migrate(address, OPTIONS), DatabaseUnavailable);
});
