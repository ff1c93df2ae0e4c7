/** Shows how the statuses of the recipients make the status of an email, and which changes are permitted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  emailStatus,
  FINAL_STATUSES,
  isFinal,
  OPEN_STATUSES,
  STATUS_RANK,
  TRANSITIONS,
  type Status,
} from './statuses.ts';

const open = (...statuses: Status[]): ReadonlySet<Status> => new Set(statuses);

test('an email with open recipients has the status of the most active one', () => {
  assert.equal(emailStatus(open('scheduled', 'deferred'), STATUS_RANK.bounced), 'deferred');
  assert.equal(emailStatus(open('deferred', 'queued'), 0), 'queued');
  assert.equal(emailStatus(open('queued', 'sending', 'deferred'), 0), 'sending');
});

test('an email whose recipients have all ended has the worst of their statuses', () => {
  assert.equal(emailStatus(open(), STATUS_RANK.delivered), 'delivered');
  assert.equal(emailStatus(open(), STATUS_RANK.bounced), 'bounced');
  assert.equal(emailStatus(open(), STATUS_RANK.complained), 'complained');
});

test('every open status can end, and only bounces and complaints change a final status', () => {
  for (const from of OPEN_STATUSES) {
    assert.ok(
      TRANSITIONS.some(([a, b]) => a === from && isFinal(b)),
      from,
    );
  }
  const late = TRANSITIONS.filter(([from]) => isFinal(from)).map(([from]) => from);
  assert.deepEqual(new Set(late), new Set(['sent', 'delivered']));
});

test('a late change only makes a status worse, except sent to delivered', () => {
  for (const [from, to] of TRANSITIONS) {
    if (!isFinal(from) || !isFinal(to) || to === 'delivered') continue;
    assert.ok(STATUS_RANK[to] > STATUS_RANK[from], `${from} to ${to}`);
  }
});

test('each final status has its own rank', () => {
  assert.equal(new Set(FINAL_STATUSES.map((status) => STATUS_RANK[status])).size, 7);
});
