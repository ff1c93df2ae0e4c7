import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newJob, newMessage } from '../../test/support/jobs.ts';
import { Lanes } from './lanes.ts';

function names(lanes: Lanes, count: number): (string | undefined)[] {
  return Array.from({ length: count }, () => lanes.next()?.address);
}

test('destinations take turns, so a backlog for one does not delay another', () => {
  const lanes = new Lanes(() => 100);
  for (let index = 0; index < 5; index += 1) lanes.add(newJob(`many${index}@slow.net`));
  lanes.add(newJob('one@quick.net'));
  assert.deepEqual(names(lanes, 3), ['many0@slow.net', 'one@quick.net', 'many1@slow.net']);
});

test('projects take turns within a destination', () => {
  const lanes = new Lanes(() => 100);
  const newsletter = newMessage();
  for (let index = 0; index < 5; index += 1) {
    lanes.add(newJob(`n${index}@example.net`, { message: newsletter }));
  }
  lanes.add(newJob('reset@example.net'));
  assert.deepEqual(names(lanes, 3), ['n0@example.net', 'reset@example.net', 'n1@example.net']);
});

test('no more than the window of a destination is under way at once', () => {
  const lanes = new Lanes(() => 2);
  const jobs = ['a', 'b', 'c'].map((name) => newJob(`${name}@example.net`));
  for (const job of jobs) lanes.add(job);
  assert.deepEqual(names(lanes, 3), ['a@example.net', 'b@example.net', undefined]);
  lanes.done(jobs[0]!);
  assert.deepEqual(names(lanes, 2), ['c@example.net', undefined]);
});

test('what is counted as waiting and under way adds up to nothing in the end', () => {
  const lanes = new Lanes(() => 10);
  const jobs = ['a@x.net', 'b@x.net', 'c@y.net'].map((to) => newJob(to));
  for (const job of jobs) lanes.add(job);
  assert.equal(lanes.waiting, 3);
  assert.ok(lanes.waitingBytes > 3_000);
  for (const job of jobs) assert.equal(lanes.next()?.address !== undefined, job !== null);
  for (const job of jobs) lanes.done(job);
  assert.deepEqual([lanes.waiting, lanes.waitingBytes, lanes.underWay], [0, 0, 0]);
});

test('draining takes out what has not started and leaves what has', () => {
  const lanes = new Lanes(() => 1);
  const jobs = ['a@x.net', 'b@x.net', 'c@y.net'].map((to) => newJob(to));
  for (const job of jobs) lanes.add(job);
  const started = lanes.next();
  assert.equal(started, jobs[0]);
  assert.deepEqual(new Set(lanes.drain()), new Set([jobs[1], jobs[2]]));
  assert.equal(lanes.next(), null);
  assert.equal(lanes.underWay, 1);
});
