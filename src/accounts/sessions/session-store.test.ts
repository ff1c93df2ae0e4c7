/**
 * Two requests of one browser that replace the token of its session at the same moment. test/api/sessions.test.ts has
 * everything else about sessions.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { createMember, findOrganization } from '../members/member-store.ts';
import { createSession, replaceToken } from './session-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const WAITS = `
select exists (select from pg_locks waiting join pg_locks taken using (pid)
                where not waiting.granted and taken.relation = 'session_tokens'::regclass) as waits`;

test('of two requests that replace a token at once, one makes the new one', async () => {
  await newSender(db);
  const organizationId = (await findOrganization(db))!;
  const who = { organizationId, email: 'jo@acme.test', emailKey: 'jo@acme.test', name: 'Jo' };
  const member = (await createMember(db, { ...who, role: 'viewer', password: 'x' }))!;
  const before = randomBytes(32);
  const where = { network: '192.0.2.0', userAgent: null, hasSecondFactor: false };
  const begun = { memberId: member.id, sha256: before, ...where };
  const id = await createSession(db, begun);
  let second: Promise<boolean> | undefined;
  const first = await db.transaction(async (tx) => {
    const isFirst = await replaceToken(tx, id, { before, after: randomBytes(32) });
    second = replaceToken(db, id, { before, after: randomBytes(32) });
    await waitFor(async () => (await db.query<{ waits: boolean }>(WAITS))[0]?.waits, {
      what: 'the second to wait for the first',
    });
    return isFirst;
  });
  assert.deepEqual([first, await second], [true, false]);
  const tokens = await db.query('select 1 from session_tokens where session_id = $1', [id]);
  assert.equal(tokens.length, 2);
});
