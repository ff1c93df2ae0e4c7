/** Shows how many connections each worker gets, and what a start says when a server has too few. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import { connectionNeeds, findConnectionsProblem } from './capacity.ts';
import {
  clientQueries,
  connectAsOwner,
  poolSizes,
  SINGLE_WORKER,
  type WorkerTasks,
} from '../database.ts';
import { memoryLimitBytes, sizedSettings } from '../embedded/cluster.ts';
import { GIB } from '../../lib/units.ts';

const EVERYTHING: WorkerTasks = SINGLE_WORKER;
const SENDING_ONLY: WorkerTasks = { ...EVERYTHING, inbound: false };

test('a worker keeps connections only for its work, and fewer readers beside many workers', () => {
  assert.equal(connectionNeeds(EVERYTHING).perWorker, 14);
  assert.equal(connectionNeeds(SENDING_ONLY).perWorker, 11);
  assert.equal(connectionNeeds({ ...SENDING_ONLY, workers: 16 }).perWorker, 9);
  const apiOnly = { workers: 1, accept: true, settle: false, webhooks: false, inbound: false };
  assert.deepEqual(poolSizes(apiOnly), {
    accept: 1,
    settle: 0,
    heartbeat: 1,
    webhooks: 0,
    inbound: 0,
    check: 2,
    read: 4,
  });
  assert.equal(connectionNeeds({ ...SENDING_ONLY, workers: 8 }).connectionsMax * 10, 780);
});

test('the embedded database has connections for every worker and a share of memory and disk', () => {
  for (const workers of [1, 2, 16, 64, 256]) {
    const { connectionsMax: connections } = connectionNeeds({ ...EVERYTHING, workers });
    const text = sizedSettings({ connections, memoryBytes: 8 * GIB, diskBytes: 100 * GIB });
    const max = Number(/max_connections = (\d+)/.exec(text)?.[1]);
    assert.ok(max >= connections + 30 && max >= 100, `${max} for ${workers} workers`);
  }
  const sized = (memoryBytes: number, diskBytes: number) =>
    sizedSettings({ connections: 10, memoryBytes, diskBytes }).split('\n').slice(1);
  assert.deepEqual(sized(GIB / 2, 4 * GIB), [
    'shared_buffers = 64MB',
    'effective_cache_size = 256MB',
    'max_wal_size = 512MB',
  ]);
  assert.equal(sized(8 * GIB, 50 * GIB)[2], 'max_wal_size = 2048MB');
  assert.deepEqual(sized(64 * GIB, 4_000 * GIB), [
    'shared_buffers = 1024MB',
    'effective_cache_size = 32768MB',
    'max_wal_size = 8192MB',
  ]);
  assert.equal(memoryLimitBytes(8 * GIB, 0), 8 * GIB);
  assert.equal(memoryLimitBytes(8 * GIB, 2 ** 63), 8 * GIB);
  assert.equal(memoryLimitBytes(8 * GIB, 2 * GIB), 2 * GIB);
});

test('a database with too few connections is reported with figures, and refused below the minimum', async () => {
  await using database = await testDatabase();
  const client = await connectAsOwner(database.address, 'test');
  const db = clientQueries(client);
  const [row] = await db.query<{ name: string }>('select current_database() as name');
  const limitTo = (count: number) =>
    db.query(`alter database ${row!.name} connection limit ${count}`);
  const needs = connectionNeeds({ ...SENDING_ONLY, workers: 2 });
  assert.equal(await findConnectionsProblem(db, needs), null);
  await limitTo(20);
  assert.match(
    String(await findConnectionsProblem(db, needs)),
    /^The database has 20 free connections \(max_connections \d+, \d+ reserved, \d+ in use, 20 for this database\), and this node needs up to 28 \(2 workers with 11 each, 6 for the supervisor\), 13 of them all the time: raise the limit, or start with fewer --workers\.$/,
  );
  await limitTo(10);
  await assert.rejects(
    findConnectionsProblem(db, needs),
    /^UnsuitableServer: The database has 10 free/,
  );
  await client.end();
});
