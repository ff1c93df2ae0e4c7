import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newJob, newMessage } from '../../test/support/jobs.ts';
import type { Job } from './job.ts';
import { Lanes } from './lanes.ts';

function newLanes(window: number | ((lane: string) => number) = 100): Lanes {
  const windowOf = typeof window === 'number' ? () => window : window;
  return new Lanes({ windowOf, restsForMs: () => 0 });
}

/** Jobs of one project. */
function jobsOf(project: string, to: readonly string[], changes: Partial<Job> = {}): Job[] {
  return to.map((address) =>
    newJob(address, { message: newMessage({ projectId: project }), ...changes }),
  );
}

function many(count: number, domain: string): string[] {
  return Array.from({ length: count }, (_, index) => `n${index}@${domain}`);
}

function addAll(lanes: Lanes, jobs: readonly Job[]): void {
  for (const job of jobs) lanes.add(job);
}

function names(lanes: Lanes, count: number): (string | undefined)[] {
  return Array.from({ length: count }, () => lanes.next()?.address);
}

test('within a project destinations take turns: a backlog for one does not delay another', () => {
  const lanes = newLanes();
  addAll(lanes, jobsOf('a', [...many(5, 'slow.net'), 'one@quick.net']));
  assert.deepEqual(names(lanes, 3), ['n0@slow.net', 'one@quick.net', 'n1@slow.net']);
});

test('projects take turns, whatever the number of their destinations', () => {
  const lanes = newLanes();
  addAll(
    lanes,
    jobsOf('a', ['a1@one.net', 'a2@two.net', 'a3@three.net', 'a4@four.net', 'a5@one.net']),
  );
  addAll(lanes, jobsOf('b', ['b1@one.net', 'b2@one.net']));
  assert.deepEqual(names(lanes, 5), [
    'a1@one.net',
    'b1@one.net',
    'a2@two.net',
    'b2@one.net',
    'a3@three.net',
  ]);
});

test('within a destination the oldest goes first, however it came in', () => {
  const lanes = newLanes();
  for (const dueAtMs of [30, 10, 20, 5]) {
    addAll(lanes, jobsOf('a', [`at${dueAtMs}@x.net`], { dueAtMs }));
  }
  assert.deepEqual(names(lanes, 4), ['at5@x.net', 'at10@x.net', 'at20@x.net', 'at30@x.net']);
});

test('no more than the window of a lane is under way, and projects share it', () => {
  const lanes = newLanes(2);
  addAll(lanes, jobsOf('a', many(5, 'x.net')));
  addAll(lanes, jobsOf('b', ['b@x.net']));
  const [first, second] = [lanes.next()!, lanes.next()!];
  assert.deepEqual([first.address, second.address], ['n0@x.net', 'b@x.net']);
  assert.equal(lanes.next(), null);
  lanes.done(second);
  assert.deepEqual(names(lanes, 2), ['n1@x.net', undefined]);
});

test('a lane whose window grows is served at once when it says so', () => {
  let window = 1;
  const lanes = newLanes(() => window);
  addAll(lanes, jobsOf('a', many(3, 'x.net')));
  assert.deepEqual(names(lanes, 2), ['n0@x.net', undefined]);
  window = 2;
  lanes.open('x.net');
  assert.deepEqual(names(lanes, 2), ['n1@x.net', undefined]);
});

test('a project leaves as much of what is under way as it takes', () => {
  const lanes = newLanes(10_000);
  addAll(lanes, jobsOf('a', many(600, 'hangs.net')));
  let started = 0;
  while (lanes.next() !== null) started += 1;
  assert.equal(started, 256);
  addAll(lanes, jobsOf('b', ['b@x.net']));
  assert.equal(lanes.next()?.address, 'b@x.net');
});

test('mail of an unknown route waits and goes into the lane of its provider', () => {
  const lanes = newLanes(2);
  addAll(lanes, jobsOf('a', ['a@one.net', 'b@two.net', 'c@three.net']));
  for (const name of ['one.net', 'two.net', 'three.net']) lanes.close(name);
  assert.equal(lanes.next(), null);
  for (const name of ['one.net', 'two.net', 'three.net']) lanes.reopen(name, 'provider');
  assert.deepEqual(names(lanes, 3), ['a@one.net', 'b@two.net', undefined]);
  assert.equal(lanes.waiting, 1);
});

test('a resting lane starts nothing and is named once, with its jobs still to be taken out', () => {
  const rests = new Set(['dead.net']);
  const lanes = new Lanes({
    windowOf: () => 10,
    restsForMs: (lane) => (rests.has(lane) ? 1_000 : 0),
  });
  addAll(lanes, jobsOf('a', ['a@dead.net', 'b@alive.net', 'c@dead.net']));
  assert.deepEqual(names(lanes, 2), ['b@alive.net', undefined]);
  assert.deepEqual([lanes.takeResting(), lanes.takeResting()], [['dead.net'], []]);
  assert.deepEqual(
    lanes.takeOut('dead.net').map(({ address }) => address),
    ['a@dead.net', 'c@dead.net'],
  );
  assert.equal(lanes.waiting, 0);
});

test('a backlog of one line leaves room for the first email of another, and of another project', () => {
  const lanes = newLanes();
  let added = 0;
  while (lanes.hasRoomFor('a', ['dead.net'], 24 * 1024)) {
    addAll(lanes, jobsOf('a', [`n${added}@dead.net`]));
    added += 1;
  }
  assert.ok(added > 500 && added < 1_000, `${added}`);
  assert.ok(lanes.hasRoomFor('a', ['alive.net'], 24 * 1024));
  assert.ok(lanes.hasRoomFor('b', ['dead.net'], 24 * 1024));
});

test('thousands of destinations of one project are given back before anybody is turned away', () => {
  const lanes = newLanes();
  let givenBack = 0;
  for (let index = 0; index < 10_000; index += 1) {
    const domain = `d${index}.net`;
    assert.ok(lanes.hasRoomFor('a', [domain], 24 * 1024));
    addAll(lanes, jobsOf('a', [`x@${domain}`]));
    const back = lanes.takeFromGreediest();
    givenBack += back.length;
    assert.ok(lanes.hasRoomFor('b', ['x.net'], 24 * 1024));
  }
  assert.ok(givenBack > 8_000, `${givenBack}`);
  addAll(lanes, jobsOf('b', ['b@x.net']));
  assert.deepEqual(
    names(lanes, 2).map((name) => name === 'b@x.net'),
    [false, true],
  );
});

test('a line takes from the table what its window can use, and nothing beyond its share', () => {
  const lanes = newLanes((lane) => (lane === 'fast.net' ? 20 : 1));
  assert.equal(lanes.claimable('a', 'fast.net'), 256);
  assert.equal(lanes.claimable('a', 'slow.net'), 16);
  addAll(lanes, jobsOf('a', many(16, 'slow.net')));
  assert.equal(lanes.claimable('a', 'slow.net'), 0);
  assert.deepEqual(lanes.satedLines(), [{ projectId: 'a', lane: 'slow.net' }]);
  assert.ok(lanes.claimable('b', 'slow.net') > 0);
});

test('what is counted adds up to nothing in the end', () => {
  const lanes = newLanes(10);
  const jobs = [...jobsOf('a', ['a@x.net', 'b@x.net']), ...jobsOf('b', ['c@y.net'])];
  addAll(lanes, jobs);
  assert.equal(lanes.waiting, 3);
  assert.equal(lanes.weightBytes, 3 * 24 * 1024);
  for (const job of jobs) assert.notEqual(lanes.next(), null, job.address);
  for (const job of jobs) lanes.done(job);
  assert.deepEqual([lanes.waiting, lanes.weightBytes, lanes.underWay], [0, 0, 0]);
});

test('draining takes out what has not started and leaves what has', () => {
  const lanes = newLanes(1);
  const jobs = jobsOf('a', ['a@x.net', 'b@x.net', 'c@y.net']);
  addAll(lanes, jobs);
  assert.equal(lanes.next(), jobs[0]);
  assert.deepEqual(new Set(lanes.drain()), new Set([jobs[1], jobs[2]]));
  assert.equal(lanes.next(), null);
  assert.equal(lanes.underWay, 1);
});

test('large messages are loaded one after the other as they fit, and one alone always', () => {
  const lanes = newLanes();
  const megabytes = (...sizes: number[]) => sizes.map((size) => size * 1024 * 1024);
  assert.equal(lanes.fitting(megabytes(20, 10, 10)), 2);
  assert.equal(lanes.fitting(megabytes(60, 1)), 1);
  addAll(lanes, jobsOf('a', ['a@x.net'], { weightBytes: 30 * 1024 * 1024 }));
  assert.equal(lanes.fitting(megabytes(1, 1, 10)), 2);
  assert.equal(lanes.fitting(megabytes(10)), 0);
});
