/** The lease of a worker on clocks that the test sets: when it may send, and when another worker takes over. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino from 'pino';
import { proxiedDatabase, testDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import type { World } from '../../lib/world.ts';
import { Database, type Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { migrate } from '../../migration/migrate.ts';
import { expireWorker, listWorkers } from './worker-store.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import { Lease } from './lease.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const log = pino({ level: 'silent' });

/** A world with clocks that the test sets. */
function settableWorld(): World & { monotonic: number; wall: number } {
  const world = {
    monotonic: 0,
    wall: 0,
    now: () => world.wall,
    monotonicMs: () => world.monotonic,
    random: () => 0.5,
    newId,
  };
  return world;
}

function newLease(world: World, leaseIds: string[] = [], queries: Queryable = db): Lease {
  const instance = newId();
  const onLeased = (id: string): void => void leaseIds.push(id);
  return new Lease({ db: queries, world, log, instance, host: 'test', pid: 1, onLeased });
}

test('a worker has a lease from the first heartbeat to the stop', async () => {
  const lease = newLease(settableWorld());
  assert.equal(lease.isFresh(), false);
  await lease.start();
  const leaseId = lease.leaseId();
  assert.ok(leaseId && (await listWorkers(db)).some(({ id }) => id === leaseId));
  assert.equal(lease.isFresh(), true);
  await lease.stop();
  assert.equal(lease.isFresh(), false);
  assert.ok(!(await listWorkers(db)).some(({ id }) => id === leaseId));
});

test('ten seconds after its last heartbeat a worker may not send, by either clock', async () => {
  for (const clock of ['monotonic', 'wall'] as const) {
    const world = settableWorld();
    const lease = newLease(world);
    await lease.start();
    world[clock] += 9_999;
    assert.equal(lease.isFresh(), true);
    world[clock] += 1;
    assert.equal(lease.isFresh(), false);
    await lease.stop();
  }
});

test('a wall clock that is set back by an hour neither ends nor extends a lease', async () => {
  const world = settableWorld();
  const lease = newLease(world);
  await lease.start();
  world.wall -= 3600_000;
  world.monotonic += 9_999;
  assert.equal(lease.isFresh(), true);
  world.monotonic += 1;
  assert.equal(lease.isFresh(), false);
  await lease.stop();
});

test('a worker that was expired continues under a new id', async () => {
  const leaseIds: string[] = [];
  const lease = newLease(settableWorld(), leaseIds);
  await lease.start();
  await expireWorker(db, { id: leaseIds[0]!, beat: null });
  await waitFor(() => leaseIds.length === 2, { what: 'a new lease' });
  assert.notEqual(leaseIds[0], leaseIds[1]);
  assert.equal(lease.leaseId(), leaseIds[1]);
  await lease.stop();
});

test('a node with a new heartbeat is not expired', async () => {
  const lease = newLease(settableWorld());
  await lease.start();
  const leaseId = lease.leaseId()!;
  await expireWorker(db, { id: leaseId, beat: 12345 });
  assert.ok((await listWorkers(db)).some(({ id }) => id === leaseId));
  await lease.stop();
});

test('a silently dropped connection is replaced before the lease expires', async () => {
  await using proxied = await proxiedDatabase();
  const { address, url, proxy } = proxied;
  const { role } = await migrate(address, { nowMs: Date.now(), acceptAnyDurability: true });
  const direct = new Database(address, { role, name: 'direct' });
  const own = new Database({ connectionString: url }, { role, name: 'test' });
  const lease = newLease(systemWorld, [], own.heartbeat);
  await lease.start();
  const readHeartbeat = async (): Promise<number> => (await listWorkers(direct))[0]?.beat ?? 0;
  const last = await readHeartbeat();
  proxy.forget();
  await waitFor(async () => (await readHeartbeat()) > last, { what: 'another heartbeat' });
  assert.equal(lease.isFresh(), true);
  await lease.stop();
  proxy.cut();
  for (const one of [own, direct]) await one.close();
});
