/**
 * Bounces at full mailboxes, which suppression-store.ts counts: how many of them suppress an address, and for how
 * long.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Scope } from '../core/scope.ts';
import { deleteExpired } from '../retention/retention-store.ts';
import { newId } from '../database/ids.ts';
import { createOrganization, createProject } from '../accounts/projects/project-store.ts';
import { noteQuotaFailure, findSuppression } from './suppression-store.ts';
import { DAY_MS } from '../lib/units.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const organization = await createOrganization(db, 'Acme');

async function newScope(): Promise<Scope> {
  const { id } = await createProject(db, organization.id, 'Project');
  return { projectId: id, environment: 'live' };
}

const address = 'full@acme.com';

const fail = (scope: Scope, emailId = newId(), to = address) =>
  noteQuotaFailure(db, { ...scope, emailId, address: to });

const isSuppressed = async (scope: Scope) => (await findSuppression(db, scope, address)) !== null;

/** Moves the failures back in time. */
const age = (scope: Scope, days: number) =>
  db.query(
    `update quota_failures set failed_at = failed_at - $2 * interval '1 day' where project_id = $1`,
    [scope.projectId, days],
  );

test('the fifth email within a week that fails at a full mailbox suppresses it for two weeks', async () => {
  const scope = await newScope();
  for (let n = 1; n <= 4; n += 1) assert.equal(await fail(scope), false);
  assert.equal(await isSuppressed(scope), false);
  const last = newId();
  assert.equal(await fail(scope, last, 'FULL@acme.com'), true);
  const entry = await findSuppression(db, scope, address);
  assert.deepEqual([entry?.reason, entry?.sourceEmailId], ['hard_bounce', last]);
  const days = (entry!.expiresAt!.getTime() - entry!.createdAt.getTime()) / DAY_MS;
  assert.equal(days, 14);
});

test('several failures of one email count once', async () => {
  const scope = await newScope();
  const emailId = newId();
  for (let n = 1; n <= 9; n += 1) await fail(scope, emailId);
  assert.equal(await isSuppressed(scope), false);
});

test('failures of other addresses, projects and environments do not count', async () => {
  const scope = await newScope();
  for (let n = 1; n <= 4; n += 1) await fail(scope);
  await fail(scope, newId(), 'other@acme.com');
  await fail(await newScope());
  await fail({ ...scope, environment: 'test' });
  assert.equal(await isSuppressed(scope), false);
});

test('a failure counts for a week', async () => {
  const scope = await newScope();
  for (let n = 1; n <= 4; n += 1) await fail(scope);
  await age(scope, 7);
  assert.equal(await fail(scope), false);
  await deleteExpired(db);
  const rows = await db.query('select from quota_failures where project_id = $1', [
    scope.projectId,
  ]);
  assert.equal(rows.length, 1);
});

test('five concurrent failures count as five', async () => {
  const scope = await newScope();
  const suppressed = await Promise.all(Array.from({ length: 5 }, () => fail(scope)));
  assert.deepEqual(suppressed.filter(Boolean).length, 1);
});
