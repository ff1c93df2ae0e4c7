/** Selects the server that accepts writes, and applies the settings of the session regardless of the address. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pg from 'pg';
import { startEngine } from '../../../test/support/engine.ts';
import { startPooler } from '../../../test/support/pooler.ts';
import { emptyDatabase, testDatabase } from '../../../test/support/postgres.ts';
import { startReplicatedPair } from '../../../test/support/replicated-postgres.ts';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { UnsuitableServer } from './connect.ts';
import { Database, type DatabaseAddress, DatabaseUnavailable } from '../database.ts';
import { APP_ROLE } from '../database.ts';
import { migrate } from '../../migration/migrate.ts';
import { openSession } from './watched-session.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());

const MIGRATING = { nowMs: Date.now(), acceptAnyDurability: true };

const SETTINGS = `
select current_user::text as role, current_setting('synchronous_commit') as commits,
       current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
       current_setting('idle_in_transaction_session_timeout') as idle,
       current_setting('enable_seqscan') as seqscan, current_setting('search_path') as path`;

function withQuery(url: string, query: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}${query}`;
}

test('options in DATABASE_URL add to the settings of Letterhaus and replace none', async () => {
  const options = encodeURIComponent(
    '-c role=none -c synchronous_commit=off -c statement_timeout=0 -c lock_timeout=0 ' +
      '-c idle_in_transaction_session_timeout=0 -c enable_seqscan=on -c search_path=public,pg_temp',
  );
  const url = withQuery(
    database.url,
    `options=${options}&statement_timeout=1&lock_timeout=1&query_timeout=1`,
  );
  const db = new Database({ connectionString: url }, { role: APP_ROLE, name: 'test' });
  const [row] = await db.accepting.query(SETTINGS);
  assert.deepEqual(row, {
    role: APP_ROLE,
    commits: 'on',
    statement: '20s',
    lock: '10s',
    idle: '20s',
    seqscan: 'off',
    path: 'public,pg_temp',
  });
  await db.close();
});

test('through a pooler in session mode everything works, migrations included', async () => {
  await using empty = await emptyDatabase();
  await using pooler = await startPooler(empty.address, { mode: 'session', lends: 'newest' });
  const address = { ...loginOf(empty.address), host: '127.0.0.1', port: pooler.port };
  const { role } = await migrate(address, MIGRATING);
  const db = new Database(address, { role, name: 'test' });
  const [row] = await db.settling.query<{ commits: string; role: string }>(SETTINGS);
  assert.equal(row?.commits, 'on');
  assert.equal(row?.role, APP_ROLE);
  await db.close();
});

for (const lends of ['newest', 'oldest'] as const) {
  test(`a pooler in transaction mode that lends its ${lends} connection is refused with the reason`, async () => {
    await using empty = await emptyDatabase();
    await using pooler = await startPooler(empty.address, { mode: 'transaction', lends });
    const address = { ...loginOf(empty.address), host: '127.0.0.1', port: pooler.port };
    await assert.rejects(migrate(address, MIGRATING), (error: Error) => {
      assert.ok(error instanceof UnsuitableServer, String(error));
      assert.match(error.message, /^DATABASE_URL points to a pooler .* set pool_mode=session/);
      return true;
    });
  });
}

test('a connection whose settings reach another one is refused', async () => {
  await using pooler = await startPooler(database.address, {
    mode: 'transaction',
    lends: 'oldest',
  });
  const address = { ...loginOf(database.address), host: '127.0.0.1', port: pooler.port };
  // From here on, three connections of the server take turns.
  const clients = await Promise.all([1, 2, 3].map(() => connected(address)));
  await Promise.all(clients.map((client) => client.query('begin')));
  await Promise.all(clients.map((client) => client.query('commit')));
  const db = new Database(address, { role: APP_ROLE, name: 'test' });
  await assert.rejects(db.query('select 1'), (error: Error) => {
    assert.ok(error instanceof DatabaseUnavailable && error.isUndone, String(error));
    assert.match(error.message, /^DATABASE_URL points to a pooler/);
    return true;
  });
  await db.close();
  await Promise.all(clients.map((client) => client.end()));
});

async function connected(address: DatabaseAddress): Promise<pg.Client> {
  const client = new pg.Client(address);
  await client.connect();
  return client;
}

function loginOf(address: DatabaseAddress): DatabaseAddress {
  const { user, password, database: name } = new pg.Client(address);
  return { user, password, database: name, ssl: false };
}

test('of several servers the writable one is used, also after a fail-over', async () => {
  await using stack = new AsyncDisposableStack();
  const engines = await Promise.all([startEngine(), startEngine()]);
  for (const engine of engines) stack.defer(() => engine.stop());
  const proxies = await Promise.all(engines.map(({ address }) => startTcpProxy(socketOf(address))));
  for (const proxy of proxies) stack.use(proxy);
  const places = proxies.map(({ port }) => `127.0.0.1:${port}`);
  const [first, second] = engines.map(({ address }) => address) as [
    pg.ClientConfig,
    pg.ClientConfig,
  ];
  for (const server of [first, second]) await ask(server, 'create table marks (id int)');
  await setWritable(first, false);
  const url = `postgres://letterhaus@${places.join(',')}/postgres`;
  const db = new Database({ connectionString: url }, { role: null, name: 'test' });
  stack.defer(() => db.close());
  const write = () => db.query<{ folder: string }>(WRITE);
  assert.deepEqual(await write(), await ask(second), 'the first is read-only');

  await setWritable(first, true);
  await setWritable(second, false);
  await waitFor(() => write().catch(() => null), { what: 'the other server to be found' });
  assert.deepEqual(await write(), await ask(first), 'the second became read-only');

  await setWritable(second, true);
  await proxies[0]!.refuse();
  await waitFor(() => write().catch(() => null), { what: 'the server that is left to be found' });
  assert.deepEqual(await write(), await ask(second), 'the first is away');

  await proxies[1]!.refuse();
  const about = { name: 'test', settings: {}, timeoutMs: 5_000 };
  await assert.rejects(
    openSession({ connectionString: url }, about),
    /^Error: none of the servers accepts writes: 127\.0\.0\.1:\d+ .*ECONNREFUSED.*; 127\.0\.0\.1:\d+ /,
  );
});

test('of two servers that accept writes, the one that was promoted is used', async () => {
  await using pair = await startReplicatedPair({ synchronous: false });
  await pair.primary.query('create table marks (id int)', 'letterhaus');
  const [created] = await pair.primary.query('select pg_current_wal_lsn()::text as lsn');
  const isThere = `select pg_last_wal_replay_lsn() >= '${String(created!['lsn'])}' as done`;
  await waitFor(async () => (await pair.standby.query(isThere))[0]!['done'], {
    what: 'the standby to have the table',
  });
  const db = new Database({ connectionString: pair.url }, { role: null, name: 'test' });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => db.close());
  const [before] = await db.query<{ folder: string }>(WRITE);
  assert.match(before?.folder ?? '', /primary/);
  // Nobody has stopped the old primary, which the address names first.
  await pair.promoteStandby();
  const again = new Database({ connectionString: pair.url }, { role: null, name: 'test' });
  stack.defer(() => again.close());
  const [now] = await again.query<{ folder: string }>(WRITE);
  assert.match(now?.folder ?? '', /standby/);
});

/** Returns the server's folder; fails where nothing can be written. */
const WRITE = `insert into marks values (1) returning current_setting('data_directory') as folder`;
const FOLDER = `select current_setting('data_directory') as folder`;

function socketOf({ host, port }: pg.ClientConfig): { path: string } {
  return { path: `${host}/.s.PGSQL.${port}` };
}

async function ask(address: pg.ClientConfig, sql = FOLDER): Promise<unknown> {
  const client = await connected(address);
  const { rows } = await client.query<object>(sql);
  await client.end();
  return rows;
}

/** Makes a server read-only, which ends its connections as in a standby. */
async function setWritable(address: pg.ClientConfig, isWritable: boolean): Promise<void> {
  const client = await connected(address);
  await client.query('set default_transaction_read_only = off');
  await client.query(`alter database postgres set default_transaction_read_only = ${!isWritable}`);
  const others = `select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = 'postgres' and pid <> pg_backend_pid()`;
  if (!isWritable) await client.query(others);
  await client.end();
}
