/**
 * Shows which rows of the real queue table a worker claims, in which order, and which node gets mail again that it
 * attempted before.
 */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import {
  newEmail,
  newSender,
  SETTLING,
  type Sender,
  settlement,
} from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { newId } from '../../database/ids.ts';
import { expireWorker, registerWorker, setUplinkDown } from './worker-store.ts';
import { claimQueues, claimOldest, findQueues, tenantQueueKey } from './claim-store.ts';
import { RECIPIENTS } from './queue-store.ts';
import { SettleStore } from '../../settle/settle-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
beforeEach(() => db.query('delete from queue'));

const START = new Date(0);
const NOWHERE = '00000000-0000-0000-0000-000000000000';
const accepting = new AcceptStore(db.accepting, {
  limit: { max: 1_000_000, windowS: 60 },
  leaseId: () => null,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});

/** Stores emails that wait in the table. @returns their ids */
async function enqueue(sender: Sender, to: readonly string[]): Promise<string[]> {
  const emails = to.map((address) => newEmail(sender, { to: [address], mayHandOver: false }));
  await Promise.all(emails.map((email) => accepting.accept(email)));
  return emails.map(({ id }) => id);
}

function many(count: number, domain: string): string[] {
  return Array.from({ length: count }, (_, index) => `n${index}@${domain}`);
}

const oldest = (changes: object = {}) =>
  claimOldest(db.settling, {
    leaseId: newId(),
    max: 100,
    readMax: 100,
    from: START,
    fullProjects: [],
    fullQueues: [],
    ...changes,
  });

const find = (changes: object = {}) =>
  findQueues(db.settling, {
    project: NOWHERE,
    projects: 10,
    probes: 100,
    cursors: new Map(),
    from: START,
    oldest: 1,
    ...changes,
  });

test('due rows are claimed oldest first, and never twice', async () => {
  const sender = await newSender(db);
  const ids = await enqueue(sender, many(40, 'example.net'));
  const claims = await Promise.all([oldest({ max: 30 }), oldest({ max: 30 })]);
  const taken = claims.flatMap(({ claimed }) => claimed.map(({ emailId }) => emailId));
  assert.deepEqual(taken.toSorted(), ids.toSorted());
  for (const { claimed } of claims) {
    const times = claimed.map(({ dueAt }) => dueAt.getTime());
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
  }
});

test('a poll that finds a backlog claims nothing before it is divided among tenant queues', async () => {
  const sender = await newSender(db);
  await enqueue(sender, many(20, 'example.net'));
  const full = await oldest({ readMax: 20 });
  assert.deepEqual([full.claimed, full.seen], [[], 20]);
  const { claimed, seen } = await oldest({ readMax: 21 });
  assert.deepEqual([claimed.length, seen], [20, 20]);
});

test('a tenant queue with enough in memory is skipped', async () => {
  const [one, other] = [await newSender(db), await newSender(db)];
  await enqueue(one, ['a@full.example', 'b@open.example']);
  await enqueue(other, ['c@full.example']);
  const fullQueues = [tenantQueueKey(one.projectId, 'full.example')];
  const { claimed } = await oldest({ fullQueues, fullProjects: [other.projectId] });
  assert.deepEqual(
    claimed.map(({ address }) => address),
    ['b@open.example'],
  );
});

test('a walk finds every provider of every project in steps', async () => {
  const [one, other] = [await newSender(db), await newSender(db)];
  const providers = Array.from({ length: 11 }, (_, index) => `provider${10 + index}.example`);
  await enqueue(
    one,
    providers.flatMap((provider) => many(3, provider)),
  );
  await enqueue(other, many(2, 'only.example'));
  const found = new Set<string>();
  const cursors = new Map<string, string>();
  let steps = 0;
  do {
    const queues = await find({ probes: 10, cursors });
    cursors.clear();
    for (const queue of queues) {
      if (queue.provider === null) continue;
      found.add(tenantQueueKey(queue.projectId, queue.provider));
      if (queue.isLast) cursors.set(queue.projectId, queue.provider);
    }
    steps += 1;
  } while (cursors.has(one.projectId) && steps < 10);
  assert.equal(steps, 3);
  assert.deepEqual(
    [...found].toSorted(),
    [
      ...providers.map((provider) => tenantQueueKey(one.projectId, provider)),
      tenantQueueKey(other.projectId, 'only.example'),
    ].toSorted(),
  );
});

test('a provider with nothing due is reported as such', async () => {
  const sender = await newSender(db);
  await enqueue(sender, ['a@later.example', 'b@now.example']);
  await db.query(
    `update queue set due_at = due_at + interval '1 hour' where provider like 'later%'`,
  );
  const due = (await find()).map(({ provider, isDue }) => `${provider} ${isDue}`);
  assert.deepEqual(new Set(due), new Set(['later.example false', 'now.example true']));
});

test('the oldest rows of each queue are claimed, and concurrent claims skip each other', async () => {
  const [one, other] = [await newSender(db), await newSender(db)];
  await enqueue(one, many(30, 'example.net'));
  const [id] = await enqueue(other, ['last@example.net']);
  const queues = [one, other].map(({ projectId }) => ({
    projectId,
    provider: 'example.net',
    max: 5,
  }));
  const claim = () => claimQueues(db.settling, { leaseId: newId(), queues, from: START });
  const claims = await Promise.all([claim(), claim()]);
  const taken = claims.flat().map(({ emailId }) => emailId);
  assert.equal(taken.length, 11);
  assert.equal(new Set(taken).size, 11);
  assert.ok(taken.includes(id!));
});

test('mail of a dead worker comes before younger mail of its queue', async () => {
  const sender = await newSender(db);
  const id = newId();
  await registerWorker(db, { id, instance: newId(), host: 'test', pid: 1 });
  await enqueue(sender, ['old@one.example']);
  await db.query(`update queue set due_at = due_at - interval '30 seconds'`);
  await oldest({ leaseId: id });
  await enqueue(sender, ['young@one.example']);
  await db.query(`update queue set due_at = due_at - interval '10 seconds' where holder is null`);
  assert.equal(await expireWorker(db, { id, beat: null }), 1);
  const { claimed } = await oldest();
  assert.deepEqual(
    claimed.map(({ address }) => address),
    ['old@one.example', 'young@one.example'],
  );
});

test('released mail is due at the given time, under the provider that is now known', async () => {
  const sender = await newSender(db);
  await enqueue(sender, ['a@one.example', 'b@two.example']);
  const leaseId = newId();
  const { claimed } = await oldest({ leaseId });
  const claims = claimed.map((one) => ({
    ...one,
    leaseId,
    provider: 'provider',
    delayMs: one.provider === 'one.example' ? 0 : 60_000,
  }));
  await RECIPIENTS.release(db.settling, claims);
  const again = (await oldest()).claimed;
  assert.deepEqual(
    again.map(({ address, provider }) => [address, provider]),
    [['a@one.example', 'provider']],
  );
});

/** Registers a worker of a separate node. @returns its lease */
async function newNode(): Promise<string> {
  const id = newId();
  await registerWorker(db, { id, instance: newId(), host: 'test', pid: 1 });
  return id;
}

const setClock = (seconds: number) =>
  db.query(`update clock set skew = skew + $1 * interval '1 second'`, [seconds]);

/** An email that the worker of `leaseId` attempted and that is due again since a moment ago. */
async function greylisted(leaseId: string): Promise<string> {
  const email = newEmail(await newSender(db), { to: ['jo@grey.example'], mayHandOver: false });
  await accepting.accept(email);
  const { claimed } = await oldest({ leaseId });
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  const deferred = { status: 'deferred', eventType: 'email.delivery_delayed' } as const;
  const { claim } = claimed[0]!;
  await settling.settle(settlement(email, { ...deferred, claim, retryMs: 60_000 }));
  await setClock(61);
  return email.projectId;
}

test('other nodes claim the mail of a node whose uplink is down', async () => {
  const [own, other] = [await newNode(), await newNode()];
  await greylisted(own);
  try {
    assert.equal((await oldest({ leaseId: other })).seen, 0);
    await setUplinkDown(db, own, true);
    assert.equal((await oldest({ leaseId: other })).claimed.length, 1);
  } finally {
    await setClock(-61);
  }
});

test('mail that is due again goes to the node of its last attempt, and after two minutes to any', async () => {
  const [own, other] = [await newNode(), await newNode()];
  const projectId = await greylisted(own);
  const queues = [{ projectId, provider: 'example.net', max: 5 }];
  const fromQueues = (leaseId: string) =>
    claimQueues(db.settling, { leaseId, queues, from: START });
  try {
    assert.equal((await oldest({ leaseId: other })).seen, 0);
    assert.deepEqual(await fromQueues(other), []);
    const { claimed } = await oldest({ leaseId: own });
    assert.equal(claimed.length, 1);
    await RECIPIENTS.release(
      db.settling,
      claimed.map((one) => ({ ...one, leaseId: own, delayMs: 0 })),
    );
    assert.deepEqual(await fromQueues(other), []);
    await setClock(120);
    assert.equal((await fromQueues(other)).length, 1);
  } finally {
    await setClock(-181);
  }
});

test('mail of a node that has ended goes to any other at once', async () => {
  const [own, other] = [await newNode(), await newNode()];
  await greylisted(own);
  try {
    assert.equal((await oldest({ leaseId: other })).claimed.length, 0);
    await expireWorker(db, { id: own, beat: null });
    assert.equal((await oldest({ leaseId: other })).claimed.length, 1);
  } finally {
    await setClock(-61);
  }
});
