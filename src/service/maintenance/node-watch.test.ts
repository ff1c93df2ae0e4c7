/**
 * When a node declares another one dead: not while nobody's heartbeats can be stored, and not because of heartbeats
 * that a fail-over lost. Two real PostgreSQL servers; test/journey/failover.test.ts has whole nodes.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino from 'pino';
import { testDatabase } from '../../../test/support/postgres.ts';
import { startReplicatedPair } from '../../../test/support/replicated-postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { Database } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import {
  expireWorker,
  incrementHeartbeat,
  listWorkers,
  registerWorker,
} from '../../delivery/queue/worker-store.ts';
import { migrate } from '../../migration/migrate.ts';
import { NodeWatch } from './node-watch.ts';

/** A node declares another one dead at the sixth poll with the same heartbeat. */
const POLLS = 6;

const shared = await testDatabase();
after(() => shared[Symbol.asyncDispose]());

async function newNode(db: Database): Promise<{ instance: string; id: string }> {
  const node = { instance: newId(), id: newId() };
  await registerWorker(db, { ...node, host: 'test', pid: 1 });
  return node;
}

function watchFrom({ instance }: { instance: string }, db: Database): NodeWatch {
  const pool = { pollNow() {}, refuseMail() {}, reportFailover() {} };
  const log = pino({ level: 'silent' });
  return new NodeWatch({ database: { db, instance }, pool, log, onOutdated: assert.fail });
}

async function isKnown({ id }: { id: string }, db: Database): Promise<boolean> {
  return (await listWorkers(db)).some((one) => one.id === id);
}

test('a node whose heartbeats are stored expires a silent one at the sixth poll', async () => {
  const { db } = shared;
  const [own, silent] = [await newNode(db), await newNode(db)];
  const watch = watchFrom(own, db);
  for (let poll = 0; poll < POLLS; poll += 1) {
    await incrementHeartbeat(db, own.id);
    await watch.check();
  }
  assert.equal(await isKnown(silent, db), true);
  await incrementHeartbeat(db, own.id);
  await watch.check();
  assert.equal(await isKnown(silent, db), false);
  assert.equal(await isKnown(own, db), true);
});

test('a node whose own heartbeats are not stored expires nobody, and counts on when they are', async () => {
  const { db } = shared;
  const [own, silent, other] = [await newNode(db), await newNode(db), await newNode(db)];
  const watch = watchFrom(own, db);
  for (let poll = 0; poll < 3 * POLLS; poll += 1) {
    await incrementHeartbeat(db, other.id);
    await watch.check();
  }
  for (const node of [own, silent, other]) assert.equal(await isKnown(node, db), true);
  for (let poll = 0; poll < POLLS; poll += 1) {
    for (const { id } of [own, other]) await incrementHeartbeat(db, id);
    await watch.check();
  }
  assert.equal(await isKnown(silent, db), false);
  for (const node of [own, other]) assert.equal(await isKnown(node, db), true);
});

test('a worker that a node starts anew counts like a heartbeat', async () => {
  const { db } = shared;
  const [first, silent] = [await newNode(db), await newNode(db)];
  const watch = watchFrom(first, db);
  let { id } = first;
  for (let poll = 0; poll <= POLLS; poll += 1) {
    await watch.check();
    await expireWorker(db, { id, beat: null });
    id = newId();
    await registerWorker(db, { id, instance: first.instance, host: 'test', pid: 1 });
  }
  assert.equal(await isKnown(silent, db), false);
});

test('commits that hang until the database fails over expire no node', async () => {
  await using pair = await startReplicatedPair({ synchronous: true });
  const { role } = await migrate(pair.primary.address('letterhaus'), {
    nowMs: Date.now(),
    acceptAnyDurability: false,
  });
  const db = new Database({ connectionString: pair.url }, { role, name: 'test' });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => db.close());
  const nodes = [await newNode(db), await newNode(db)] as const;
  const watch = watchFrom(nodes[0], db);
  const heartbeats = () => nodes.map(({ id }) => incrementHeartbeat(db.heartbeat, id));
  await Promise.all(heartbeats());
  await watch.check();

  await pair.cutReplication();
  const hanging = Promise.allSettled(heartbeats());
  for (let poll = 0; poll <= POLLS; poll += 1) await watch.check().catch(() => {});
  await pair.primary.kill9();
  await pair.promoteStandby();
  const results = await hanging;
  assert.deepEqual(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
    'no heartbeat was stored',
  );

  const isChecked = () =>
    watch.check().then(
      () => true,
      () => false,
    );
  await waitFor(isChecked, { what: 'the other server' });
  for (const node of nodes) assert.equal(await isKnown(node, db), true);
  await Promise.all(heartbeats());
  await watch.check();
  for (const node of nodes) assert.equal(await isKnown(node, db), true);
});
