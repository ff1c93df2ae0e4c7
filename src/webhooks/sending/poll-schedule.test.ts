import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PollSchedule } from './loop.ts';

/** The database's clock, as far from ours as it may be. */
const seenAt = (nowMs: number) => nowMs + 1_000_000;

test('the first poll covers everything, the next ones only what is new', () => {
  const looks = new PollSchedule();
  assert.ok(looks.waitMs(0) <= 0);
  assert.equal(looks.sinceMs(0), -Infinity);
  looks.done(0, seenAt(0), true);
  assert.equal(looks.waitMs(0), 1_000);
  assert.equal(looks.sinceMs(500), seenAt(0) - 250);
});

test('every 2 s a poll covers the last 20 s, every minute one covers everything', () => {
  const looks = new PollSchedule();
  looks.done(0, seenAt(0), true);
  assert.equal(looks.sinceMs(2_000), seenAt(0) - 20_000);
  looks.done(2_000, seenAt(2_000), true);
  assert.equal(looks.sinceMs(2_500), seenAt(2_000) - 250);
  assert.equal(looks.sinceMs(60_000), -Infinity);
});

test('queued deliveries are polled at once, at most every 20 ms', () => {
  const looks = new PollSchedule();
  looks.done(0, seenAt(0), true);
  looks.soon();
  assert.equal(looks.waitMs(5), 15);
  assert.ok(looks.waitMs(100) <= 0);
  looks.done(100, seenAt(100), true);
  assert.equal(looks.waitMs(100), 1_000);
});

test('after 10 s without work it polls every 2 s, until it finds some', () => {
  const looks = new PollSchedule();
  looks.done(0, seenAt(0), true);
  looks.done(9_000, seenAt(9_000), false);
  assert.equal(looks.waitMs(9_000), 1_000);
  looks.done(10_000, seenAt(10_000), false);
  assert.equal(looks.waitMs(10_000), 2_000);
  looks.soon();
  assert.equal(looks.waitMs(10_000), 20);
  looks.done(10_020, seenAt(10_020), true);
  assert.equal(looks.waitMs(10_020), 1_000);
});

test('after a reset the next poll covers everything', () => {
  const looks = new PollSchedule();
  looks.done(0, seenAt(0), true);
  looks.startAnew();
  assert.equal(looks.sinceMs(500), -Infinity);
});

test("after the database's clock went back the next poll is soon and covers everything", () => {
  const looks = new PollSchedule();
  looks.done(0, seenAt(0), true);
  looks.done(1_000, seenAt(1_000) - 180_000, false);
  assert.equal(looks.waitMs(1_000), 20);
  assert.equal(looks.sinceMs(1_020), -Infinity);
  looks.done(1_020, seenAt(1_020) - 180_000, true);
  assert.equal(looks.sinceMs(1_500), seenAt(1_020) - 180_250);
});
