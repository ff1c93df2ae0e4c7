/** Conditions that several nodes report at once, in a real database: each is opened once and ended once. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import type { NewCondition } from '../core/operator-events.ts';
import { BEGINNING, readStream } from '../events/stream-store.ts';
import {
  clearCondition,
  countConditions,
  listLapsedConditions,
  listConditions,
  OPERATOR_SCOPE,
  raiseCondition,
} from './condition-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

beforeEach(async () => {
  await database.sql('truncate operator_conditions, events');
  await database.sql(`update clock set skew = '0'`);
});

const BLOCKED: NewCondition = {
  type: 'provider.blocked',
  subject: 'gmail',
  message: 'gmail refuses all mail from 192.0.2.7.',
  remedy: 'Ask for delisting.',
  details: { provider: 'gmail' },
};

type OperatorEvent = { type: string; data: { [name: string]: unknown } };

/** Returns the events of the operator's stream, as soon as there are this many. */
async function events(count: number): Promise<OperatorEvent[]> {
  const read = async () => {
    const filter = { types: null, emailId: null, domain: null };
    const page = { after: BEGINNING, filter, limit: 100, retentionH: null };
    const found = await readStream(db, OPERATOR_SCOPE, page);
    assert.ok(typeof found !== 'string');
    const reported: OperatorEvent[] = found.events.map(({ type, data }) => ({ type, data }));
    return reported.length >= count ? reported : null;
  };
  return waitFor(read, { what: `${count} events` });
}

test('a condition is opened once, and reporting it again only updates its time', async () => {
  const first = await raiseCondition(db, BLOCKED);
  assert.equal(first.isNew, true);
  await database.sql(`update clock set skew = '1 hour'`);
  const again = await raiseCondition(db, { ...BLOCKED, message: 'Still.' });
  assert.equal(again.isNew, false);
  assert.deepEqual(again.since, first.since);
  assert.equal(again.lastSeen.getTime() - first.since.getTime() >= 3_600_000, true);
  const [open, ...others] = await listConditions(db, 10);
  assert.deepEqual(others, []);
  assert.equal(open?.message, 'Still.');
  assert.deepEqual(await countConditions(db), [{ type: 'provider.blocked', open: 1 }]);
  const reported = await events(1);
  assert.equal(reported.length, 1);
  assert.deepEqual(reported[0], {
    type: 'provider.blocked',
    data: {
      subject: 'gmail',
      state: 'raised',
      message: BLOCKED.message,
      remedy: BLOCKED.remedy,
      since: first.since.toISOString(),
      details: { provider: 'gmail' },
    },
  });
});

test('the end of a condition has an event of its own, once', async () => {
  const { since } = await raiseCondition(db, BLOCKED);
  await raiseCondition(db, { ...BLOCKED, subject: 'yahoo' });
  const ended = await clearCondition(db, BLOCKED);
  assert.deepEqual(ended?.since, since);
  assert.equal(await clearCondition(db, BLOCKED), null);
  assert.deepEqual(
    (await listConditions(db, 10)).map(({ subject }) => subject),
    ['yahoo'],
  );
  const last = (await events(3)).at(-1);
  assert.equal(last?.type, 'provider.unblocked');
  assert.equal(last?.data['state'], 'cleared');
  assert.equal(last?.data['since'], since.toISOString());
});

test('when many nodes report a condition at the same moment, one opens it and one ends it', async () => {
  const nodes = Array.from({ length: 12 });
  const raised = await Promise.all(nodes.map(() => raiseCondition(db, BLOCKED)));
  assert.equal(raised.filter(({ isNew }) => isNew).length, 1);
  const ended = await Promise.all(nodes.map(() => clearCondition(db, BLOCKED)));
  assert.equal(ended.filter((one) => one !== null).length, 1);
  assert.equal((await events(2)).length, 2);
});

test('a condition that is no longer reported lapses, and one that is reported again does not', async () => {
  const gone = { ...BLOCKED, subject: 'gone', lapsesAfterMs: 600_000 };
  const present = { ...BLOCKED, subject: 'present', lapsesAfterMs: 600_000 };
  await raiseCondition(db, BLOCKED);
  await raiseCondition(db, gone);
  await raiseCondition(db, present);
  await database.sql(`update clock set skew = '11 minutes'`);
  const found = await listLapsedConditions(db);
  assert.deepEqual(
    found.map(({ subject }) => subject),
    ['gone', 'present'],
  );
  await raiseCondition(db, present);
  const ended = await Promise.all(found.map((one) => clearCondition(db, one, { ifLapsed: true })));
  assert.deepEqual(
    ended.map((one) => one?.subject),
    ['gone', undefined],
  );
});

test('texts that PostgreSQL cannot store do not lose the condition', async () => {
  await raiseCondition(db, {
    ...BLOCKED,
    message: 'a\0b',
    details: { reply: '550 \0 no \\u0000' },
  });
  const [open] = await listConditions(db, 1);
  assert.equal(open?.message, 'a\uFFFDb');
  assert.deepEqual(open?.details, { reply: '550 \uFFFD no \\u0000' });
});
