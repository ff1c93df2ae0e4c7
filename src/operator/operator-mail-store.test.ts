/**
 * Shows which reports an operator's mail has, and which of several nodes plans it. test/journey/operator-mail.test.ts
 * receives one.
 */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import type { ConditionType } from '../core/operator-events.ts';
import { parseAddress } from '../mail/address.ts';
import { clearCondition, raiseCondition } from './condition-store.ts';
import {
  deletePlannedMail,
  deleteOldOperatorMail,
  listPlannedMail,
  planOperatorMail,
  setOperatorAddress,
} from './operator-mail-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const TO = parseAddress('ops@acme.example')!;

beforeEach(async () => {
  await database.sql('truncate operator_conditions, operator_mail_queue, operator_mailed');
  await setOperatorAddress(db, TO);
});

const raise = (type: ConditionType, subject: string) =>
  raiseCondition(db, { type, subject, message: `${subject} is in need.`, remedy: 'Help it.' });
const planned = () => listPlannedMail(db, 2);
const pass = (period: string) =>
  database.sql('update clock set skew = skew + $1::interval', [period]);

test('when several nodes check at the same moment, one plans the mail of a kind', async () => {
  await raise('disk.low', 'mail1.example');
  await raise('disk.low', 'mail2.example');
  await raise('clock.skewed', 'mail1.example');
  await Promise.all([1, 2, 3, 4].map(() => planOperatorMail(db)));
  const mails = await planned();
  assert.deepEqual(mails.map(({ kind, total }) => `${kind} ${total}`).toSorted(), [
    'clock.skewed 1',
    'disk.low 2',
  ]);
});

test('reports within an hour wait for its end, and a mail that is not accepted keeps its id', async () => {
  await raise('disk.low', 'mail1.example');
  await planOperatorMail(db);
  const [first] = await planned();
  await clearCondition(db, { type: 'disk.low', subject: 'mail1.example' });
  await pass('2 hours');
  await planOperatorMail(db);
  assert.deepEqual(await planned(), [first], 'one after the other');
  await deletePlannedMail(db, first!.id);
  await planOperatorMail(db);
  const [second] = await planned();
  assert.deepEqual(
    second?.reports.map(({ state, message }) => [state, message]),
    [['cleared', 'The disk has enough free space again.']],
  );
  await deletePlannedMail(db, second.id);
  await raise('disk.low', 'mail1.example');
  await pass('59 minutes');
  await planOperatorMail(db);
  assert.deepEqual(await planned(), []);
  await pass('1 minute');
  await planOperatorMail(db);
  assert.equal((await planned()).length, 1);
});

test('a mail has the newest reports, oldest first, and their number', async () => {
  for (const number of [1, 2, 3]) await raise('disk.low', `mail${number}.example`);
  await planOperatorMail(db);
  const [mail] = await planned();
  assert.equal(mail?.total, 3);
  assert.deepEqual(
    mail.reports.map(({ subject }) => subject),
    ['mail2.example', 'mail3.example'],
  );
});

test('no report is queued about the mail itself, or without an address, and old reports are deleted', async () => {
  await raise('operator.unreachable', 'mail to the operator');
  const waiting = () => database.sql('select subject from operator_mail_queue');
  assert.deepEqual(await waiting(), []);
  await raise('disk.low', 'mail1.example');
  const grow = () => database.sql(`update operator_mail_queue set at = at - interval '29 days'`);
  await grow();
  assert.equal(await deleteOldOperatorMail(db, 10), 0);
  await grow();
  assert.equal(await deleteOldOperatorMail(db, 10), 1);
  await raise('disk.low', 'mail2.example');
  await setOperatorAddress(db, null);
  await raise('disk.low', 'mail3.example');
  assert.deepEqual(await waiting(), []);
});
