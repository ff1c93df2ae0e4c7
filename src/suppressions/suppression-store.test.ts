/** Suppressions in a real database: how entries replace each other, their events and their history. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Scope } from '../core/scope.ts';
import { createOrganization, createProject } from '../accounts/projects/project-store.ts';
import {
  importSuppressions,
  listSuppressions,
  type SuppressionFilter,
  type SuppressionPage,
  addSuppression,
  type NewSuppression,
  removeSuppression,
} from './suppression-store.ts';
import { listHistory, shortenHistories } from './history-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const organization = await createOrganization(db, 'Acme');

async function newScope(): Promise<Scope> {
  const { id } = await createProject(db, organization.id, 'Project');
  return { projectId: id, environment: 'live' };
}

type Wanted = Partial<SuppressionPage & SuppressionFilter>;

async function pageOf(scope: Scope, wanted: Wanted = {}) {
  const { limit = 10, reason = null, prefix = null, ...cursor } = wanted;
  const page = { limit, after: null, before: null, ...cursor };
  return listSuppressions(db, scope, { page, filter: { reason, prefix } });
}

const addresses = async (scope: Scope, wanted?: Wanted) =>
  (await pageOf(scope, wanted)).rows.map(({ address }) => address);

const add = (scope: Scope, address: string, more: Partial<NewSuppression> = {}) =>
  addSuppression(db, scope, {
    address,
    reason: 'manual',
    sourceEmailId: null,
    expiresAt: null,
    by: 'api',
    ...more,
  });

const remove = (scope: Scope, address: string) =>
  removeSuppression(db, scope, { address, by: 'api' });

const inAnHour = () => new Date(Date.now() + 3_600_000);

const eventsOf = (scope: Scope) =>
  db.query<{ type: string; data: { address: string } }>(
    'select type, data from events where project_id = $1 order by created_at, id',
    [scope.projectId],
  );

test('an address is suppressed once, ignoring case', async () => {
  const scope = await newScope();
  const first = await add(scope, 'Bob@acme.com');
  const second = await add(scope, 'bob@ACME.com');
  assert.deepEqual([first.isNew, second.isNew], [true, false]);
  assert.equal(first.suppression.reason, 'manual');
  assert.deepEqual(await addresses(scope), ['Bob@acme.com']);
});

test('each change has an event, and a request that changes nothing has none', async () => {
  const scope = await newScope();
  await add(scope, 'bob@acme.com');
  await add(scope, 'bob@acme.com');
  const removed = await remove(scope, 'BOB@acme.com');
  assert.equal(removed?.address, 'bob@acme.com');
  assert.equal(await remove(scope, 'bob@acme.com'), null);
  const events = await eventsOf(scope);
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.address]),
    [
      ['suppression.added', 'bob@acme.com'],
      ['suppression.removed', 'bob@acme.com'],
    ],
  );
});

test('an expired entry is not found and can be added again', async () => {
  const scope = await newScope();
  await add(scope, 'bob@acme.com');
  await db.query(
    `update suppressions set expires_at = app_now() - interval '1 s', reason = $2
                   where project_id = $1`,
    [scope.projectId, 'hard_bounce'],
  );
  assert.deepEqual(await addresses(scope), []);
  assert.equal(await remove(scope, 'bob@acme.com'), null);
  const { suppression, isNew } = await add(scope, 'bob@acme.com');
  assert.deepEqual([isNew, suppression.reason, suppression.expiresAt], [true, 'manual', null]);
});

test('an entry with an expiry is replaced only by one without', async () => {
  const scope = await newScope();
  const expiresAt = inAnHour();
  await add(scope, 'bob@acme.com', { reason: 'hard_bounce', expiresAt });
  const later = await add(scope, 'bob@acme.com', { expiresAt: new Date(+expiresAt + 1) });
  assert.deepEqual([later.isNew, later.suppression.reason], [false, 'hard_bounce']);
  const forGood = await add(scope, 'bob@acme.com', { reason: 'unsubscribe' });
  assert.deepEqual([forGood.isNew, forGood.suppression.reason], [true, 'unsubscribe']);
  assert.equal((await add(scope, 'bob@acme.com')).suppression.reason, 'unsubscribe');
});

test('only an entry with one of the given reasons is removed', async () => {
  const scope = await newScope();
  await add(scope, 'bob@acme.com', { reason: 'complaint' });
  const undo = { address: 'bob@acme.com', by: 'recipient' } as const;
  assert.equal(await removeSuppression(db, scope, { ...undo, reasons: ['unsubscribe'] }), null);
  assert.ok(await removeSuppression(db, scope, { ...undo, reasons: ['complaint'] }));
});

test('additions and removals stay in the history, newest first', async () => {
  const scope = await newScope();
  await add(scope, 'bob@acme.com', { reason: 'unsubscribe', by: 'recipient' });
  await add(scope, 'bob@acme.com');
  await remove(scope, 'bob@acme.com');
  const row = { reason: 'manual', createdAt: null, expiresAt: null } as const;
  await importSuppressions(db, scope, [{ ...row, address: 'Bob@acme.com' }]);
  const history = await listHistory(db, scope, { address: 'BOB@acme.com', limit: 10 });
  assert.deepEqual(
    history.map(({ action, reason, by }) => [action, reason, by]),
    [
      ['added', 'manual', 'import'],
      ['removed', 'unsubscribe', 'api'],
      ['added', 'unsubscribe', 'recipient'],
    ],
  );
  assert.deepEqual(
    await listHistory(db, await newScope(), { address: 'bob@acme.com', limit: 9 }),
    [],
  );
});

test('a batch adds new addresses, each with one event, and repeating it changes nothing', async () => {
  const scope = await newScope();
  await add(scope, 'present@acme.com', { reason: 'complaint' });
  const row = { reason: 'manual', createdAt: null, expiresAt: null } as const;
  const since = new Date('2025-01-02T03:04:05Z');
  const batch = [
    { ...row, address: 'new@acme.com', createdAt: since, reason: 'hard_bounce' },
    { ...row, address: 'NEW@acme.com' },
    { ...row, address: 'present@acme.com' },
    { ...row, address: 'over@acme.com', expiresAt: new Date(0) },
    { ...row, address: 'future@acme.com', createdAt: inAnHour() },
  ] as const;
  assert.partialDeepStrictEqual(await importSuppressions(db, scope, batch), {
    added: 2,
    expired: [3],
  });
  assert.partialDeepStrictEqual(await importSuppressions(db, scope, batch), {
    added: 0,
    expired: [3],
  });
  const { rows } = await pageOf(scope);
  assert.deepEqual(
    rows.map(({ address, reason }) => [address, reason]),
    [
      ['future@acme.com', 'manual'],
      ['new@acme.com', 'hard_bounce'],
      ['present@acme.com', 'complaint'],
    ],
  );
  assert.deepEqual(rows[1]?.createdAt, since);
  assert.ok(rows[0]!.createdAt < inAnHour());
  const events = (await eventsOf(scope)).map(({ data }) => data.address);
  assert.deepEqual(events.toSorted(), ['future@acme.com', 'new@acme.com', 'present@acme.com']);
});

test('a list continues at its cursor, within its project and environment', async () => {
  const scope = await newScope();
  for (const name of ['c', 'a', 'b']) await add(scope, `${name}@acme.com`);
  await add({ ...scope, environment: 'test' }, 'd@acme.com');
  await add(await newScope(), 'e@acme.com');
  for (const reason of [null, 'manual'] as const) {
    const first = await pageOf(scope, { limit: 2, reason });
    assert.deepEqual(
      [first.rows.map(({ address }) => address), first.hasMore],
      [['a@acme.com', 'b@acme.com'], true],
    );
    assert.deepEqual(await addresses(scope, { after: 'B@acme.com', reason }), ['c@acme.com']);
    const back = { limit: 1, before: 'c@acme.com', reason };
    assert.deepEqual(await addresses(scope, back), ['b@acme.com']);
    assert.equal((await pageOf(scope, back)).hasMore, true);
  }
});

test('a list can be filtered by reason and by the beginning of addresses', async () => {
  const scope = await newScope();
  await add(scope, 'Bob@acme.com', { reason: 'complaint' });
  await add(scope, 'bobby@acme.com');
  await add(scope, 'ann@acme.com', { reason: 'complaint' });
  const complaints = { reason: 'complaint' } as const;
  assert.deepEqual(await addresses(scope, complaints), ['ann@acme.com', 'Bob@acme.com']);
  assert.deepEqual(await addresses(scope, { prefix: 'BOB' }), ['Bob@acme.com', 'bobby@acme.com']);
  assert.deepEqual(await addresses(scope, { ...complaints, prefix: 'bob' }), ['Bob@acme.com']);
  assert.deepEqual(await addresses(scope, { prefix: 'ob' }), []);
});

test('the oldest rows of a long history are deleted, and no other list is shortened', async () => {
  const [scope, other] = [await newScope(), await newScope()];
  for (let round = 0; round < 5; round += 1) {
    for (const one of round === 0 ? [scope, other] : [scope]) {
      await add(one, 'jo@acme.com');
      await removeSuppression(db, one, { address: 'jo@acme.com', by: 'api' });
    }
  }
  await add(scope, 'kim@acme.com');
  await removeSuppression(db, scope, { address: 'kim@acme.com', by: 'recipient' });
  const lengthOf = async (one: Scope, address: string) =>
    (await listHistory(db, one, { address, limit: 100 })).length;
  assert.equal(await lengthOf(scope, 'jo@acme.com'), 10);
  await shortenHistories(db, { rowsMax: 6, batch: 4 });
  assert.equal(await lengthOf(scope, 'jo@acme.com'), 4);
  await shortenHistories(db, { rowsMax: 2, batch: 4 });
  assert.equal(await lengthOf(scope, 'jo@acme.com'), 0);
  assert.deepEqual(
    [await lengthOf(scope, 'kim@acme.com'), await lengthOf(other, 'jo@acme.com')],
    [2, 2],
  );
  // Rows of a recipient within a day remain, because removeSuppression counts them.
  await shortenHistories(db, { rowsMax: 0, batch: 4 });
  assert.deepEqual(
    (await listHistory(db, scope, { address: 'kim@acme.com', limit: 9 })).map(({ by }) => by),
    ['recipient'],
  );
});
