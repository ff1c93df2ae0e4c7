/** Errors that callers get when the database does not execute a statement. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import pg from 'pg';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import {
  busyReasonOf,
  clientQueries,
  Database,
  DatabaseUnavailable,
  type Queryable,
} from './database.ts';

const database = await testDatabase();
const { db } = database;
const client = new pg.Client(database.address);
await client.connect();
const owner = clientQueries(client);
after(async () => {
  await client.end();
  await database[Symbol.asyncDispose]();
});

async function assertUnavailable(work: Promise<unknown>, isUndone: boolean): Promise<void> {
  const error = await work.then(
    () => assert.fail('it succeeded'),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof DatabaseUnavailable, String(error));
  assert.equal(error.isUndone, isUndone, error.message);
}

const ACTIVITY = 'select wait_event as "waitEvent" from pg_stat_activity where pid = $1';

async function waitEventOf(pid: number): Promise<string | null | undefined> {
  const [row] = await owner.query<{ waitEvent: string | null }>(ACTIVITY, [pid]);
  return row?.waitEvent;
}

async function kill(pid: number): Promise<void> {
  await owner.query('select pg_terminate_backend($1)', [pid]);
  const isGone = async () => (await waitEventOf(pid)) === undefined;
  await waitFor(isGone, { what: 'the connection to end' });
}

async function pidOf(queries: Queryable): Promise<number> {
  const [row] = await queries.query<{ pid: number }>('select pg_backend_pid() as pid');
  return row!.pid;
}

test('an unreachable server means that the statement was not executed', async () => {
  const nowhere = new Database({ host: '127.0.0.1', port: 1 }, { role: null, name: 'nowhere' });
  await assertUnavailable(nowhere.query('select 1'), true);
  await assertUnavailable(
    nowhere.transaction((tx) => tx.query('select 1')),
    true,
  );
  await nowhere.close();
});

test('a refused log-in means that the statement was not executed', async () => {
  const noSuchRole = new Database(database.address, { role: 'nobody_of_this_name', name: 'test' });
  await assertUnavailable(noSuchRole.query('select 1'), true);
  await noSuchRole.close();
});

test('a connection lost during a statement leaves its outcome unknown and is replaced', async () => {
  const pid = await pidOf(db.accepting);
  const sleeping = assertUnavailable(db.accepting.query('select pg_sleep(60)'), false);
  const sleeps = async () => (await waitEventOf(pid)) === 'PgSleep';
  await waitFor(sleeps, { what: 'the statement to run' });
  await kill(pid);
  await sleeping;
  assert.notEqual(await pidOf(db.accepting), pid);
});

test('a connection lost during a transaction is an error for its caller only', async () => {
  const broken = db.transaction(async (tx) => {
    await kill(await pidOf(tx));
    await tx.query('select 1');
  });
  await assertUnavailable(broken, false);
  assert.deepEqual(await db.query('select 1 as one'), [{ one: 1 }]);
});

test('a lock timeout, a deadlock or a cancellation means that the statement was not executed', async () => {
  await db.query(`insert into auth_windows values ('locked', app_now(), 1)`);
  const update = `update auth_windows set used = used + 1 where client = 'locked'`;
  await db.accepting.query(`set lock_timeout = '50ms'`);
  await db.transaction(async (tx) => {
    await tx.query(update);
    await assertUnavailable(db.accepting.query(update), true);
  });
  await db.accepting.query(`set statement_timeout = '50ms'`);
  await assertUnavailable(db.accepting.query('select pg_sleep(60)'), true);
  for (const code of ['40P01', '40001', '53100']) {
    const raise = `do $$ begin raise exception using errcode = '${code}'; end $$`;
    await assertUnavailable(db.query(raise), true);
  }
});

test('a server that answers but refuses is not called unreachable', async () => {
  const reasons: [string, string | null][] = [
    ['53100', 'it lacks space, memory or connections'],
    ['53200', 'it lacks space, memory or connections'],
    ['53300', 'it lacks space, memory or connections'],
    ['53400', 'it lacks space, memory or connections'],
    ['40001', 'another change was in progress'],
    ['40P01', 'another change was in progress'],
    ['55P03', 'another change was in progress'],
    ['57014', 'it took too long'],
    ['57P01', null],
    ['08006', null],
    ['40003', null],
  ];
  for (const [code, reason] of reasons) {
    const raise = `do $$ begin raise exception 'no' using errcode = '${code}'; end $$`;
    const error: unknown = await db.query(raise).catch((one: unknown) => one);
    assert.ok(error instanceof DatabaseUnavailable, code);
    assert.equal(busyReasonOf(error), reason, code);
    const says = reason === null ? 'cannot be reached' : 'refused a statement for now';
    assert.equal(error.message, `the database ${says}: no`);
  }
});

test('an error of a statement is not reported as an unavailable database', async () => {
  for (const sql of ['select 1 / 0', 'select * from no_such_table', 'selec']) {
    await assert.rejects(db.query(sql), (error) => !(error instanceof DatabaseUnavailable));
  }
});

test('an event-loop stall is not reported as an unavailable database', async () => {
  const connectTimeoutMs = 2_000;
  const other = new Database(database.address, { role: null, name: 'busy', connectTimeoutMs });
  const asked = other.query('select 1 as one');
  const untilMs = performance.now() + connectTimeoutMs + 500;
  while (performance.now() < untilMs);
  assert.deepEqual(await asked, [{ one: 1 }]);
  await other.close();
});

test('waiting for a connection is not reported as an unavailable database', async () => {
  const connectTimeoutMs = 2_000;
  const other = new Database(database.address, { role: null, name: 'queue', connectTimeoutMs });
  const asked = Array.from({ length: 24 }, () => other.query('select pg_sleep(0.5)'));
  for (const result of await Promise.allSettled(asked)) {
    assert.equal(result.status, 'fulfilled', String(result.status === 'rejected' && result.reason));
  }
  await other.close();
});

test('a statement that waits too long for a connection fails and was not executed', async () => {
  const other = new Database(database.address, {
    role: null,
    name: 'still',
    connectTimeoutMs: 2_000,
  });
  const pid = await pidOf(other.accepting);
  const sleeping = assertUnavailable(other.accepting.query('select pg_sleep(60)'), false);
  await Promise.all([1, 2].map(() => assertUnavailable(other.accepting.query('select 1'), true)));
  await kill(pid);
  await sleeping;
  assert.deepEqual(await other.accepting.query('select 1 as one'), [{ one: 1 }]);
  await other.close();
});

test('statements use the connections that there are when the server has none left', async () => {
  const role = `few_${randomBytes(4).toString('hex')}`;
  await owner.query(`create role ${role} login superuser`);
  const address = { ...database.address, user: role };
  const other = new Database(address, { role: null, name: 'few' });
  await other.query('select 1');
  await owner.query(`alter role ${role} nosuperuser connection limit 1`);
  try {
    const asked = Array.from({ length: 8 }, () => other.query('select pg_sleep(0.01)'));
    await Promise.all(asked);
    // Without a connection of its own, a pool has nothing to wait for.
    await assertUnavailable(other.accepting.query('select 1'), true);
  } finally {
    await other.close();
    await owner.query(`drop role ${role}`);
  }
});
