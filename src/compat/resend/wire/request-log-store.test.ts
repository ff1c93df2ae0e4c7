/** The retention of the requests that Resend's clients can list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSender } from '../../../../test/support/mail-store.ts';
import { testDatabase } from '../../../../test/support/postgres.ts';
import { newId } from '../../../database/ids.ts';
import { addRequests, findRequest, deleteOldRequests } from './request-log-store.ts';

test('requests are deleted after a week', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { projectId, environment } = await newSender(db);
  const scope = { projectId, environment };
  const add = async () => {
    const id = newId();
    const facts = { method: 'GET', endpoint: '/emails', status: 200, userAgent: null };
    await addRequests(db, [{ ...scope, id, ...facts }]);
    return id;
  };
  const old = await add();
  await db.query(`update clock set skew = skew + interval '6 days'`);
  const young = await add();
  assert.equal(await deleteOldRequests(db, 500), 0);
  await db.query(`update clock set skew = skew + interval '1 day 1 minute'`);
  assert.equal(await deleteOldRequests(db, 500), 1);
  assert.equal(await findRequest(db, scope, old), null);
  assert.equal((await findRequest(db, scope, young))?.id, young);
});
