import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as marks from './marks.ts';

const [A, B, C] = ['01a', '01b', '01c'] as const;

test('an email is unread until it is opened, or all are marked as read', () => {
  const opened = marks.withRead(marks.NO_MARKS, B);
  assert.deepEqual([marks.isUnread(opened, A), marks.isUnread(opened, B)], [true, false]);
  const all = marks.withAllRead(opened, B);
  assert.deepEqual(
    [A, B, C].map((id) => marks.isUnread(all, id)),
    [false, false, true],
  );
  for (const read of [opened, all]) {
    const unread = marks.withUnread(read, B);
    assert.ok(marks.isUnread(unread, B));
    assert.ok(!marks.isUnread(marks.withRead(unread, B), B));
  }
});

test('an email is removed alone, or with all that arrived before', () => {
  const one = marks.withRemoved(marks.NO_MARKS, B);
  assert.deepEqual([marks.isRemoved(one, A), marks.isRemoved(one, B)], [false, true]);
  const all = marks.withAllRemoved(one, B);
  assert.deepEqual(
    [A, B, C].map((id) => marks.isRemoved(all, id)),
    [true, true, false],
  );
});

test('all until now has the ids of emails that are accepted now, and of none later', () => {
  const nowMs = Date.parse('2026-11-27T08:00:00.000Z');
  const idOf = (ms: number): string =>
    ms
      .toString(16)
      .padStart(12, '0')
      .replace(/(.{8})/, '$1-') + '-7abc-8def-000000000000';
  const all = marks.withAllRead(marks.NO_MARKS, marks.lastIdAt(nowMs));
  assert.ok(!marks.isUnread(all, idOf(nowMs)));
  assert.ok(marks.isUnread(all, idOf(nowMs + 1)));
});

test('the browser stores a limited number of marks, and nothing that it stores breaks the page', () => {
  let many = marks.NO_MARKS;
  for (let id = 0; id < 1_500; id += 1) many = marks.withRead(many, `x${id}`);
  assert.equal(many.read.length, 1_000);
  assert.ok(!marks.isUnread(many, 'x1499'));
  assert.deepEqual(marks.parseMarks(JSON.stringify(many)), many);
  for (const text of [null, '', '[]', '{"read":4}', 'null']) {
    assert.deepEqual(marks.parseMarks(text), marks.NO_MARKS);
  }
});
