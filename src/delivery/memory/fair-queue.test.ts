/**
 * The order of deliveries in memory, among projects, providers and destinations. test/journey/fairness.test.ts and
 * test/isolation show it at a whole service.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newDelivery, newMessage } from '../../../test/support/deliveries.ts';
import type { Delivery } from './delivery.ts';
import { FairQueue } from './fair-queue.ts';

function newFairQueue(window: number | ((provider: string) => number) = 100): FairQueue {
  const windowOf = typeof window === 'number' ? () => window : window;
  return new FairQueue({ windowOf, suspendedForMs: () => 0, notifyPromptChange: () => {} });
}

/** Creates deliveries of one project. */
function deliveriesOf(
  project: string,
  to: readonly string[],
  changes: Partial<Delivery> = {},
): Delivery[] {
  return to.map((address) =>
    newDelivery(address, { message: newMessage({ projectId: project }), ...changes }),
  );
}

function many(count: number, domain: string): string[] {
  return Array.from({ length: count }, (_, index) => `n${index}@${domain}`);
}

function addAll(queue: FairQueue, deliveries: readonly Delivery[]): void {
  for (const delivery of deliveries) queue.add(delivery);
}

function names(queue: FairQueue, count: number): (string | undefined)[] {
  return Array.from({ length: count }, () => queue.startNext()?.address);
}

test('within a project a backlog for one destination does not delay another', () => {
  const queue = newFairQueue();
  addAll(queue, deliveriesOf('a', [...many(5, 'slow.net'), 'one@quick.net']));
  assert.deepEqual(names(queue, 3), ['n0@slow.net', 'one@quick.net', 'n1@slow.net']);
});

test('projects are served in turn, regardless of the number of their destinations', () => {
  const queue = newFairQueue();
  addAll(
    queue,
    deliveriesOf('a', ['a1@one.net', 'a2@two.net', 'a3@three.net', 'a4@four.net', 'a5@one.net']),
  );
  addAll(queue, deliveriesOf('b', ['b1@one.net', 'b2@one.net']));
  assert.deepEqual(names(queue, 5), [
    'a1@one.net',
    'b1@one.net',
    'a4@four.net',
    'b2@one.net',
    'a2@two.net',
  ]);
});

test('within a destination the oldest delivery comes first', () => {
  const queue = newFairQueue();
  for (const dueAtMs of [30, 10, 20, 5]) {
    addAll(queue, deliveriesOf('a', [`at${dueAtMs}@x.net`], { dueAtMs }));
  }
  assert.deepEqual(names(queue, 4), ['at5@x.net', 'at10@x.net', 'at20@x.net', 'at30@x.net']);
});

test('a provider runs no more deliveries than its window, and projects share it', () => {
  const queue = newFairQueue(2);
  addAll(queue, deliveriesOf('a', many(5, 'x.net')));
  addAll(queue, deliveriesOf('b', ['b@x.net']));
  const [first, second] = [queue.startNext()!, queue.startNext()!];
  assert.deepEqual([first.address, second.address], ['n0@x.net', 'b@x.net']);
  assert.equal(queue.startNext(), null);
  queue.endDelivery(second);
  assert.deepEqual(names(queue, 2), ['n1@x.net', undefined]);
});

test('a provider starts the next attempt while the outcome of another is settled', () => {
  const queue = newFairQueue(1);
  addAll(queue, deliveriesOf('a', many(3, 'x.net')));
  const first = queue.startNext()!;
  assert.equal(queue.startNext(), null);
  queue.endAttempt(first);
  queue.endAttempt(first);
  assert.deepEqual(names(queue, 2), ['n1@x.net', undefined]);
  assert.equal(queue.runningCount, 2);
  queue.endDelivery(first);
  assert.equal(queue.startNext(), null, 'the attempt freed only one place');
  assert.equal(queue.runningCount, 1);
});

test('a provider is served at once when its window grows', () => {
  let window = 1;
  const queue = newFairQueue(() => window);
  addAll(queue, deliveriesOf('a', many(3, 'x.net')));
  assert.deepEqual(names(queue, 2), ['n0@x.net', undefined]);
  window = 2;
  queue.openProvider('x.net');
  assert.deepEqual(names(queue, 2), ['n1@x.net', undefined]);
});

function startAll(queue: FairQueue): Delivery[] {
  const started: Delivery[] = [];
  for (let next = queue.startNext(); next !== null; next = queue.startNext()) started.push(next);
  return started;
}

test('a project leaves as many slots as it takes', () => {
  const queue = newFairQueue(10_000);
  addAll(queue, deliveriesOf('a', many(600, 'hangs.net')));
  assert.equal(startAll(queue).length, 128);
  addAll(queue, deliveriesOf('b', ['b@x.net']));
  assert.equal(queue.startNext()?.address, 'b@x.net');
});

test('mail to a provider that answered has separate slots and comes first in its project', () => {
  const queue = newFairQueue(10_000);
  addAll(queue, deliveriesOf('a', ['first@alive.net']));
  const [first] = startAll(queue);
  first!.slot!.markGreeted();
  queue.endDelivery(first!);
  addAll(queue, deliveriesOf('a', [...many(600, 'hangs.net'), 'reset@alive.net']));
  assert.equal(queue.startNext()?.address, 'reset@alive.net');
  assert.equal(startAll(queue).length, 128);
  addAll(queue, deliveriesOf('a', many(600, 'alive.net')));
  assert.equal(startAll(queue).length, 255);
});

test('a provider that answered another worker comes first, and each change is reported once', () => {
  const changes: [string, boolean][] = [];
  const queue = new FairQueue({
    windowOf: () => 10_000,
    suspendedForMs: () => 0,
    notifyPromptChange: (...change) => changes.push(change),
  });
  addAll(queue, deliveriesOf('a', [...many(600, 'hangs.net'), ...many(4, 'alive.net')]));
  queue.markPrompt('alive.net');
  const first = Array.from({ length: 4 }, () => queue.startNext()!);
  assert.deepEqual(new Set(first.map(({ provider }) => provider)), new Set(['alive.net']));
  assert.deepEqual(changes, [], 'the other worker has reported it');
  for (const delivery of first.splice(0, 2)) {
    delivery.slot!.markGreeted();
    queue.endDelivery(delivery);
  }
  for (const delivery of first) assert.ok(queue.leaveSlotIfSlow(delivery));
  assert.deepEqual(changes, [['alive.net', false]]);
});

test('deliveries without a session leave their slots, and their provider returns to trial slots', () => {
  const queue = newFairQueue(10_000);
  addAll(queue, deliveriesOf('a', ['first@x.net']));
  const [first] = startAll(queue);
  first!.slot!.markGreeted();
  queue.endDelivery(first!);
  addAll(queue, deliveriesOf('a', many(300, 'x.net')));
  const started = startAll(queue);
  assert.equal(started.length, 256);
  for (const delivery of started) assert.ok(queue.leaveSlotIfSlow(delivery));
  assert.equal(queue.runningCount, 256);
  assert.equal(startAll(queue).length, 44);
  addAll(queue, deliveriesOf('a', many(200, 'x.net')));
  assert.equal(startAll(queue).length, 84, 'they get trial slots now');
});

test('mail with an unknown route waits and moves to its provider after the look-up', () => {
  const queue = newFairQueue(2);
  addAll(queue, deliveriesOf('a', ['a@one.net', 'b@two.net', 'c@three.net']));
  for (const name of ['one.net', 'two.net', 'three.net']) queue.closeProvider(name);
  assert.equal(queue.startNext(), null);
  for (const name of ['one.net', 'two.net', 'three.net']) queue.reopenProvider(name, 'provider');
  assert.deepEqual(names(queue, 3), ['a@one.net', 'b@two.net', undefined]);
  assert.equal(queue.queuedCount, 1);
});

test('a suspended provider starts nothing and is reported once, and its deliveries can be taken out', () => {
  const suspended = new Set(['dead.net']);
  const queue = new FairQueue({
    windowOf: () => 10,
    suspendedForMs: (provider) => (suspended.has(provider) ? 1_000 : 0),
    notifyPromptChange: () => {},
  });
  addAll(queue, deliveriesOf('a', ['a@dead.net', 'b@alive.net', 'c@dead.net']));
  assert.deepEqual(names(queue, 2), ['b@alive.net', undefined]);
  assert.deepEqual(
    [queue.takeSuspendedProviders(), queue.takeSuspendedProviders()],
    [['dead.net'], []],
  );
  assert.deepEqual(
    queue.takeQueued('dead.net').map(({ address }) => address),
    ['a@dead.net', 'c@dead.net'],
  );
  assert.equal(queue.queuedCount, 0);
});

test('a backlog of one queue leaves memory for another queue and for another project', () => {
  const queue = newFairQueue();
  let added = 0;
  while (queue.hasSpaceFor('a', ['dead.net'], 24 * 1024)) {
    addAll(queue, deliveriesOf('a', [`n${added}@dead.net`]));
    added += 1;
  }
  assert.ok(added > 500 && added < 1_000, `${added}`);
  assert.ok(queue.hasSpaceFor('a', ['alive.net'], 24 * 1024));
  assert.ok(queue.hasSpaceFor('b', ['dead.net'], 24 * 1024));
});

test('deliveries of a project with thousands of destinations are released before others are refused', () => {
  const queue = newFairQueue();
  let givenBack = 0;
  for (let index = 0; index < 10_000; index += 1) {
    const domain = `d${index}.net`;
    assert.ok(queue.hasSpaceFor('a', [domain], 24 * 1024));
    addAll(queue, deliveriesOf('a', [`x@${domain}`]));
    const back = queue.takeFromLargest();
    givenBack += back.length;
    assert.ok(queue.hasSpaceFor('b', ['x.net'], 24 * 1024));
  }
  assert.ok(givenBack > 8_000, `${givenBack}`);
  addAll(queue, deliveriesOf('b', ['b@x.net']));
  assert.deepEqual(
    names(queue, 2).map((name) => name === 'b@x.net'),
    [false, true],
  );
});

test('a queue takes from the table as much as its window can use, and nothing beyond its share', () => {
  const queue = newFairQueue((provider) => (provider === 'fast.net' ? 20 : 1));
  assert.equal(queue.claimLimit('a', 'fast.net'), 256);
  assert.equal(queue.claimLimit('a', 'slow.net'), 16);
  addAll(queue, deliveriesOf('a', many(16, 'slow.net')));
  assert.equal(queue.claimLimit('a', 'slow.net'), 0);
  assert.deepEqual(queue.fullQueues(), [{ projectId: 'a', provider: 'slow.net' }]);
  assert.ok(queue.claimLimit('b', 'slow.net') > 0);
});

test('all counts return to zero at the end', () => {
  const queue = newFairQueue(10);
  const deliveries = [
    ...deliveriesOf('a', ['a@x.net', 'b@x.net']),
    ...deliveriesOf('b', ['c@y.net']),
  ];
  addAll(queue, deliveries);
  assert.equal(queue.queuedCount, 3);
  assert.equal(queue.weightBytes, 3 * 24 * 1024);
  for (const delivery of deliveries) assert.notEqual(queue.startNext(), null, delivery.address);
  for (const delivery of deliveries) queue.endDelivery(delivery);
  assert.deepEqual([queue.queuedCount, queue.weightBytes, queue.runningCount], [0, 0, 0]);
});

test('a delivery that does not run cannot end, and a running one cannot start again', () => {
  const queue = newFairQueue(10);
  const [first, second] = deliveriesOf('a', ['a@x.net', 'b@x.net']);
  addAll(queue, [first!, second!]);
  assert.equal(queue.startNext(), first);
  assert.throws(() => queue.endDelivery(second!), /not running/);
  assert.throws(() => queue.startOutOfTurn(first!), /already running/);
  queue.endDelivery(first!);
  assert.throws(() => queue.endDelivery(first!), /not running/);
  assert.equal(queue.startNext(), second);
  queue.endDelivery(second!);
  assert.deepEqual([queue.queuedCount, queue.weightBytes, queue.runningCount], [0, 0, 0]);
});

test('a count that would fall below zero is an error, not a negative number', () => {
  const queue = newFairQueue(10);
  const [delivery] = deliveriesOf('a', ['a@x.net']);
  addAll(queue, [delivery!]);
  queue.startNext();
  delivery!.provider = 'elsewhere.net';
  assert.throws(() => queue.endDelivery(delivery!), /would be -1/);
  assert.equal(queue.weightBytes, 24 * 1024);
});

test('draining takes out only deliveries that have not started', () => {
  const queue = newFairQueue(1);
  const deliveries = deliveriesOf('a', ['a@x.net', 'b@x.net', 'c@y.net']);
  addAll(queue, deliveries);
  assert.equal(queue.startNext(), deliveries[0]);
  assert.deepEqual(new Set(queue.takeAllQueued()), new Set([deliveries[1], deliveries[2]]));
  assert.equal(queue.startNext(), null);
  assert.equal(queue.runningCount, 1);
});
