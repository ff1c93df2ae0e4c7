/**
 * API keys in a real database: only their hash is stored, and each is visible only in its project and environment.
 * key-cache.test.ts has the look-ups of running requests.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { hashApiKey, parseApiKey } from './api-key.ts';
import { ALLOW_ALL, type Scope } from '../../core/scope.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import {
  createKey,
  findCallers,
  findKey,
  deleteEndedKeys,
  listKeys,
  type NewKey,
  revokeKey,
  recordLastUse,
  updateKey,
} from './key-store.ts';
import { findNames } from '../../stats/stats-store.ts';
import { createOrganization, createProject, listProjects } from '../projects/project-store.ts';

const KEY: NewKey = { name: 'ci', permission: 'full_access', domain: null, expiresAt: null };

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

async function newScope(): Promise<Scope & { organizationId: string }> {
  const organization = await createOrganization(db, 'Acme');
  const project = await createProject(db, organization.id, 'Shop');
  return { projectId: project.id, environment: 'test', organizationId: organization.id };
}

async function callerOf(queryable: Queryable, text: string) {
  const hash = hashApiKey(text);
  return (await findCallers(queryable, [hash])).get(hash);
}

test('a key is found by its text, with project, environment and organization', async () => {
  const { organizationId, ...scope } = await newScope();
  const { key, text } = await createKey(db, scope, { ...KEY, domain: 'acme.com' });
  assert.equal(parseApiKey(text), 'test');
  assert.deepEqual(await callerOf(db, text), {
    ...scope,
    organizationId,
    keyId: key.id,
    permission: 'full_access',
    domain: 'acme.com',
    expiresAt: null,
    ...ALLOW_ALL,
  });
});

test('the text of a key is stored nowhere', async () => {
  const scope = await newScope();
  const { text } = await createKey(db, scope, KEY);
  const [row] = await db.query<{ all: string }>(
    'select api_keys::text as all from api_keys where project_id = $1',
    [scope.projectId],
  );
  assert.ok(!row?.all.includes(text.slice(12)));
});

test('a revoked key is not found and cannot be revoked twice', async () => {
  const scope = await newScope();
  const { key, text } = await createKey(db, scope, KEY);
  assert.equal(await revokeKey(db, scope, key.id), true);
  assert.equal(await callerOf(db, text), undefined);
  assert.equal(await revokeKey(db, scope, key.id), false);
  assert.equal(await findKey(db, scope, key.id), null);
});

test('an expired key is not found', async () => {
  const scope = await newScope();
  const past = await createKey(db, scope, { ...KEY, expiresAt: new Date(Date.now() - 1_000) });
  const future = await createKey(db, scope, { ...KEY, expiresAt: new Date(Date.now() + 60_000) });
  assert.equal(await callerOf(db, past.text), undefined);
  assert.equal((await callerOf(db, future.text))?.keyId, future.key.id);
});

test('keys of another environment or project cannot be seen, changed or revoked', async () => {
  const scope = await newScope();
  const { key, text } = await createKey(db, scope, KEY);
  for (const other of [{ ...scope, environment: 'live' as const }, await newScope()]) {
    assert.equal(await findKey(db, other, key.id), null);
    assert.equal(await updateKey(db, other, { ...KEY, id: key.id }), null);
    assert.equal(await revokeKey(db, other, key.id), false);
  }
  assert.ok(await callerOf(db, text));
});

test('a key that is renamed while it is restricted stays restricted', async () => {
  const scope = await newScope();
  const { key } = await createKey(db, scope, KEY);
  const { id } = key;
  const expiresAt = new Date('2030-01-01T00:00:00.000Z');
  const limits = { permission: 'sending_access' as const, domain: 'acme.com', expiresAt };
  await Promise.all([
    updateKey(db, scope, { id, ...limits }),
    updateKey(db, scope, { id, name: 'renamed' }),
  ]);
  const { name, permission, domain, expiresAt: until } = (await findKey(db, scope, id))!;
  assert.deepEqual({ name, permission, domain, expiresAt: until }, { name: 'renamed', ...limits });
  const widened = await updateKey(db, scope, { id, domain: null, expiresAt: null });
  assert.deepEqual([widened?.domain, widened?.expiresAt], [null, null]);
});

test('keys are listed newest first, paged in both directions', async () => {
  const scope = await newScope();
  const ids: string[] = [];
  for (let count = 0; count < 5; count += 1) {
    ids.unshift((await createKey(db, scope, KEY)).key.id);
  }
  const page = { limit: 2, after: null, before: null };
  const idsOf = async (cursor: object) => {
    const { rows, hasMore } = await listKeys(db, scope, { ...page, ...cursor });
    return [...rows.map((row) => row.id), hasMore];
  };
  assert.deepEqual(await idsOf({}), [ids[0], ids[1], true]);
  assert.deepEqual(await idsOf({ after: ids[1] }), [ids[2], ids[3], true]);
  assert.deepEqual(await idsOf({ after: ids[3] }), [ids[4], false]);
  assert.deepEqual(await idsOf({ before: ids[3] }), [ids[1], ids[2], true]);
  assert.deepEqual(await idsOf({ before: ids[1] }), [ids[0], false]);
});

test('all valid keys are kept, and the newest of those that have ended', async () => {
  const [scope, other] = [await newScope(), await newScope()];
  const valid = (await createKey(db, scope, KEY)).key.id;
  const ended: string[] = [];
  for (let count = 0; count < 7; count += 1) {
    const { key } = await createKey(db, scope, { ...KEY, name: `key ${count}` });
    if (count % 2 === 0) await revokeKey(db, scope, key.id);
    else await updateKey(db, scope, { id: key.id, expiresAt: new Date(Date.now() - 1_000) });
    ended.unshift(key.id);
  }
  const { key: others } = await createKey(db, other, KEY);
  await revokeKey(db, other, others.id);
  assert.equal(await deleteEndedKeys(db, 3, 2), 3);
  assert.equal(await deleteEndedKeys(db, 3, 2), 2);
  assert.equal(await deleteEndedKeys(db, 3, 2), 0);
  const dimension = 'key';
  const left = await findNames(db, scope, { dimension, ids: [valid, ...ended] });
  assert.deepEqual(new Set(left.keys()), new Set([valid, ...ended.slice(0, 2)]));
  assert.equal((await findNames(db, other, { dimension, ids: [others.id] })).size, 1);
  assert.equal((await findKey(db, scope, valid))?.id, valid);
});

test('the last use of a key is recorded to the minute', async () => {
  const scope = await newScope();
  const { key } = await createKey(db, scope, KEY);
  assert.equal(key.lastUsedAt, null);
  await recordLastUse(db, [{ projectId: scope.projectId, keyId: key.id }]);
  const used = (await findKey(db, scope, key.id))?.lastUsedAt;
  assert.ok(used && used.getSeconds() === 0 && used.getMilliseconds() === 0);
});

test('the projects of another organization are not listed', async () => {
  const { organizationId, projectId } = await newScope();
  await newScope();
  const projects = await listProjects(db, organizationId);
  assert.deepEqual(
    projects.map((project) => project.id),
    [projectId],
  );
});

test('an unknown hash finds no key', async () => {
  assert.equal((await findCallers(db, [hashApiKey(newId())])).size, 0);
});
