/**
 * A fresh, migrated database for a test:
 *
 *   await using database = await testDatabase();
 *   await database.db.query('select 1');
 *
 * On DATABASE_URL when that is set, else on an embedded engine (engine.ts). Made by migrating: a
 * template would save 90 ms of 230, and would have to be made and removed somewhere.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { Database, type DatabaseAddress } from '../../src/store/postgres/database.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { testEngine } from './engine.ts';
import { type TcpProxy, startTcpProxy } from './tcp-proxy.ts';

export type TestDatabase = AsyncDisposable & {
  /** In the role the service works in: it can change rows and nothing else. */
  db: Database;
  /** As the owner. */
  address: DatabaseAddress;
  /** The same, for DATABASE_URL. */
  url: string;
  /** Ends all connections and lets nobody connect; true: lets them again. */
  setReachable(isReachable: boolean): Promise<void>;
};

/** A database with the present schema and no rows but those that mirror code. */
export async function testDatabase(): Promise<TestDatabase> {
  const empty = await emptyDatabase();
  const { role } = await migrate(empty.address, { nowMs: Date.now(), acceptAnyDurability: true });
  const db = new Database(empty.address, { role, name: 'test' });
  return {
    ...empty,
    db,
    async [Symbol.asyncDispose]() {
      await db.close();
      await empty[Symbol.asyncDispose]();
    },
  };
}

/** A database without any schema, for what migrates by itself (a spawned service, say). */
export async function emptyDatabase(): Promise<Omit<TestDatabase, 'db'>> {
  const { address: server } = await testEngine();
  const name = `posthorn_test_${randomBytes(6).toString('hex')}`;
  await maintain(server, `create database ${name}`);
  const dropLogins = await droppingLoginsOf(server, name);
  const address = addressOf(server, name);
  return {
    address,
    url: urlOf(address),
    async setReachable(isReachable) {
      await maintain(server, `alter database ${name} allow_connections ${isReachable}`);
      if (isReachable) return;
      const mine = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`;
      await maintain(server, mine);
    },
    async [Symbol.asyncDispose]() {
      await maintain(server, `drop database if exists ${name} with (force)`);
      await maintain(server, dropLogins);
    },
  };
}

/** Roles belong to the whole server; those that workers log in as have their database in the name. */
async function droppingLoginsOf(server: DatabaseAddress, name: string): Promise<string> {
  const client = new pg.Client(server);
  await client.connect();
  const sql = `select oid from pg_database where datname = '${name}'`;
  const { rows } = await client.query<{ oid: number }>(sql);
  await client.end();
  return `do $$ declare login text; begin
    for login in select rolname from pg_roles where rolname ~ '^posthorn_${rows[0]?.oid}_' loop
      execute format('drop role %I', login);
    end loop;
  end $$`;
}

export type ProxiedDatabase = Omit<TestDatabase, 'db'> & { proxy: TcpProxy };

/** The same with a proxy in front: `url` leads through it, `address` past it. */
export async function proxiedDatabase(): Promise<ProxiedDatabase> {
  const empty = await emptyDatabase();
  const { host, port, user, password, database } = new pg.Client(empty.address);
  const isSocket = host.startsWith('/');
  const proxy = await startTcpProxy(
    isSocket ? { path: `${host}/.s.PGSQL.${port}` } : { host, port },
  );
  const login = [user ?? '', ...(password ? [password] : [])].map(encodeURIComponent).join(':');
  return {
    ...empty,
    url: `postgres://${login}@127.0.0.1:${proxy.port}/${database}`,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await empty[Symbol.asyncDispose]();
    },
  };
}

async function maintain(server: DatabaseAddress, statement: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

function addressOf(server: DatabaseAddress, database: string): DatabaseAddress {
  const { connectionString: url } = server;
  if (url === undefined) return { ...server, database };
  // Not through `new URL`: it refuses `postgres://user@/name?host=/folder`, which pg understands.
  return { connectionString: url.replace(/^(\w+:\/\/[^/?]*)\/?[^?]*/, `$1/${database}`) };
}

function urlOf({ connectionString, host, user, database }: DatabaseAddress): string {
  if (connectionString !== undefined) return connectionString;
  return `postgres://${user}@localhost/${database}?host=${encodeURIComponent(host ?? '')}`;
}
