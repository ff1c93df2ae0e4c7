import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Scope } from '../core/scope.ts';
import { createOrganization, createProject } from './projects.ts';
import { addSuppression, listSuppressions, removeSuppression } from './suppressions.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const organization = await createOrganization(db, 'Acme');

async function newScope(): Promise<Scope> {
  const { id } = await createProject(db, organization.id, 'Project');
  return { projectId: id, environment: 'live' };
}

const addresses = async (scope: Scope, page = { limit: 10, after: '' }) =>
  (await listSuppressions(db, scope, page)).map(({ address }) => address);

const eventsOf = (scope: Scope) =>
  db.query<{ type: string; data: { address: string } }>(
    'select type, data from events where project_id = $1 order by created_at, id',
    [scope.projectId],
  );

test('an address is suppressed once, in whatever case it is written', async () => {
  const scope = await newScope();
  const first = await addSuppression(db, scope, 'Bob@acme.com');
  const second = await addSuppression(db, scope, 'bob@ACME.com');
  assert.deepEqual([first.isNew, second.isNew], [true, false]);
  assert.equal(first.suppression.reason, 'manual');
  assert.deepEqual(await addresses(scope), ['Bob@acme.com']);
});

test('each change has its event, and what changes nothing has none', async () => {
  const scope = await newScope();
  await addSuppression(db, scope, 'bob@acme.com');
  await addSuppression(db, scope, 'bob@acme.com');
  const removed = await removeSuppression(db, scope, 'BOB@acme.com');
  assert.equal(removed?.address, 'bob@acme.com');
  assert.equal(await removeSuppression(db, scope, 'bob@acme.com'), null);
  const events = await eventsOf(scope);
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.address]),
    [
      ['suppression.added', 'bob@acme.com'],
      ['suppression.removed', 'bob@acme.com'],
    ],
  );
});

test('an entry that has expired does not exist, and can be added anew', async () => {
  const scope = await newScope();
  await addSuppression(db, scope, 'bob@acme.com');
  await db.query(
    `update suppressions set expires_at = app_now() - interval '1 s', reason = $2
                   where project_id = $1`,
    [scope.projectId, 'hard_bounce'],
  );
  assert.deepEqual(await addresses(scope), []);
  assert.equal(await removeSuppression(db, scope, 'bob@acme.com'), null);
  const { suppression, isNew } = await addSuppression(db, scope, 'bob@acme.com');
  assert.deepEqual([isNew, suppression.reason, suppression.expiresAt], [true, 'manual', null]);
});

test('a list goes on where it was cut, and never leaves its project and environment', async () => {
  const scope = await newScope();
  for (const name of ['c', 'a', 'b']) await addSuppression(db, scope, `${name}@acme.com`);
  await addSuppression(db, { ...scope, environment: 'test' }, 'd@acme.com');
  await addSuppression(db, await newScope(), 'e@acme.com');
  const first = await addresses(scope, { limit: 1, after: '' });
  assert.deepEqual(first, ['a@acme.com', 'b@acme.com']);
  assert.deepEqual(await addresses(scope, { limit: 1, after: 'b@acme.com' }), ['c@acme.com']);
});
