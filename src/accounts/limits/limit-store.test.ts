/** Rate limits that all workers count together, in a real database, with clocks that are set back. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { Limit } from '../../core/limits.ts';
import type { Scope } from '../../core/scope.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import {
  countAuthFailure,
  peekLimit,
  purgeAuthWindows,
  setLimit,
  countRequest,
  type CountResult,
} from './limit-store.ts';
import { createOrganization, createProject } from '../projects/project-store.ts';

const LIMIT = { max: 10, windowS: 60 };

type Db = Parameters<typeof countRequest>[0];

const takeVerification = (on: Db, scope: Scope, limit: Limit) =>
  countRequest(on, { ...scope, category: 'verification' }, limit);

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

async function newScope(): Promise<Scope> {
  const organization = await createOrganization(db, 'Acme');
  const project = await createProject(db, organization.id, 'Shop');
  return { projectId: project.id, environment: 'live' };
}

async function passSeconds(seconds: number): Promise<void> {
  await db.query(`update clock set skew = skew + $1 * interval '1 second'`, [seconds]);
}

function times<Result>(count: number, work: () => Promise<Result>): Promise<Result[]> {
  return Promise.all(Array.from({ length: count }, work));
}

function allowed(results: readonly CountResult[]): number {
  return results.filter((result) => result.allowed).length;
}

test('of 30 concurrent verifications exactly 10 are allowed', async () => {
  const scope = await newScope();
  const results = await times(30, () => takeVerification(db, scope, LIMIT));
  assert.equal(allowed(results), 10);
  const refused = results.find((result) => !result.allowed);
  assert.equal(refused?.limit.remaining, 0);
  assert.ok(refused && refused.limit.resetS >= 59 && refused.limit.resetS <= 60);
});

test('a window that another worker has just begun is never longer than a window', async () => {
  const scope = await newScope();
  await takeVerification(db, scope, LIMIT);
  const ahead = `update limit_windows set started_at = app_now() + interval '2 s'
                  where project_id = $1`;
  await db.query(ahead, [scope.projectId]);
  assert.equal((await takeVerification(db, scope, LIMIT)).limit.resetS, 60);
});

test('a clock that is set back by an hour begins new windows instead of keeping the old ones for an hour', async () => {
  const scope = await newScope();
  const client = '192.0.2.77';
  await times(10, () => takeVerification(db, scope, LIMIT));
  await times(10, () => countAuthFailure(db, client, LIMIT));
  await passSeconds(-3600);
  const seen = await peekLimit(db, { ...scope, category: 'verification' }, LIMIT);
  assert.equal(seen.remaining, 10);
  assert.equal((await takeVerification(db, scope, LIMIT)).limit.remaining, 9);
  assert.equal((await countAuthFailure(db, client, LIMIT)).limit.remaining, 9);
  await passSeconds(3600);
  await db.query('delete from auth_windows');
});

test('remaining counts down, and the window starts again after 60 s', async () => {
  const scope = await newScope();
  const remaining = [];
  for (let count = 0; count < 3; count += 1) {
    remaining.push((await takeVerification(db, scope, LIMIT)).limit.remaining);
  }
  assert.deepEqual(remaining, [9, 8, 7]);
  await passSeconds(59);
  assert.equal((await takeVerification(db, scope, LIMIT)).limit.remaining, 6);
  await passSeconds(2);
  assert.equal((await takeVerification(db, scope, LIMIT)).limit.remaining, 9);
});

test('each environment and project has its own window', async () => {
  const scope = await newScope();
  await times(10, () => takeVerification(db, scope, LIMIT));
  const other = { ...scope, environment: 'test' as const };
  assert.equal((await takeVerification(db, other, LIMIT)).limit.remaining, 9);
  assert.equal((await takeVerification(db, await newScope(), LIMIT)).limit.remaining, 9);
});

test('the limit of a project replaces the default until it is reset', async () => {
  const scope = await newScope();
  const category = { ...scope, category: 'verification' as const };
  await setLimit(db, category, { max: 2, windowS: 3600 });
  assert.equal(allowed(await times(5, () => takeVerification(db, scope, LIMIT))), 2);
  assert.deepEqual(await peekLimit(db, category, LIMIT), {
    limit: 2,
    remaining: 0,
    resetS: 3600,
    windowS: 3600,
  });
  await setLimit(db, category, null);
  assert.equal((await peekLimit(db, category, LIMIT)).limit, 10);
});

test('reading a limit counts nothing', async () => {
  const scope = { ...(await newScope()), category: 'sending' as const };
  const untouched = { limit: 10, remaining: 10, resetS: 60, windowS: 60 };
  assert.deepEqual(await peekLimit(db, scope, LIMIT), untouched);
  assert.deepEqual(await peekLimit(db, scope, LIMIT), untouched);
});

test('failed authentications are counted per client, exactly', async () => {
  const results = await times(25, () => countAuthFailure(db, '192.0.2.1', LIMIT));
  assert.equal(allowed(results), 10);
  assert.equal((await countAuthFailure(db, '192.0.2.2', LIMIT)).limit.remaining, 9);
  await passSeconds(61);
  assert.equal((await countAuthFailure(db, '192.0.2.1', LIMIT)).limit.remaining, 9);
});

test('clients that failed long ago are removed', async () => {
  await countAuthFailure(db, '192.0.2.3', LIMIT);
  await passSeconds(24 * 3600 + 1);
  await countAuthFailure(db, '192.0.2.4', LIMIT);
  await purgeAuthWindows(db);
  const rows = await db.query<{ client: string }>('select client from auth_windows');
  assert.deepEqual(
    rows.map((row) => row.client),
    ['192.0.2.4'],
  );
});
