/**
 * A fresh, migrated database for a test:
 *
 *   await using database = await testDatabase();
 *   await database.db.query('select 1');
 *
 * It is on the server of DATABASE_URL, else on an embedded engine (engine.ts). The engine has a template, so a new
 * database is a copy of 11 MB instead of all migrations: 0.07 s of CPU time instead of 0.46 s. On a server that is
 * not ours, every database is migrated.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import {
  APP_ROLE,
  clientQueries,
  connectAsOwner,
  Database,
  type DatabaseAddress,
  type Queryable,
} from '../../src/database/database.ts';
import { migrate } from '../../src/migration/migrate.ts';
import { testEngine } from './engine.ts';
import { type TcpProxy, startTcpProxy } from './tcp-proxy.ts';

export type TestDatabase = AsyncDisposable & {
  /** Connections in the role of the service, which can only change rows. */
  db: Database;
  /** The address for the owner. */
  address: DatabaseAddress;
  /** The same as a URL, for DATABASE_URL. */
  url: string;
  /** Runs a statement as the owner, on a kept connection. @returns the rows */
  // oxlint-disable-next-line typescript/no-explicit-any
  sql(text: string, values?: unknown[]): Promise<any[]>;
  /** Ends all connections and refuses new ones; true: allows them again. */
  setReachable(isReachable: boolean): Promise<void>;
};

/** Returns a database of the current schema. Its only rows are those that mirror code. */
export async function testDatabase(): Promise<TestDatabase> {
  const migrated = await migratedDatabase();
  const db = new Database(migrated.address, { role: APP_ROLE, name: 'test' });
  return {
    ...migrated,
    db,
    async [Symbol.asyncDispose]() {
      await db.close();
      await migrated[Symbol.asyncDispose]();
    },
  };
}

/** Returns the same for programs that connect by themselves, such as a spawned service. */
export async function migratedDatabase(): Promise<Omit<TestDatabase, 'db'>> {
  const { address: server, template } = await testEngine();
  // Not through the WAL, which is the default and takes three times as much CPU time.
  if (template !== null) return newDatabase(server, `template ${template} strategy file_copy`);
  const database = await newDatabase(server);
  await migrateForTests(database.address);
  return database;
}

/** Runs statements on a connection of the owner. */
export async function asOwner<Result>(
  address: DatabaseAddress,
  work: (db: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await connectAsOwner(address, 'test');
  try {
    return await work(clientQueries(client));
  } finally {
    await client.end();
  }
}

/** Returns a database without a schema, for tests of migrations. @param server default: the server of all tests */
export async function emptyDatabase(server?: DatabaseAddress): Promise<Omit<TestDatabase, 'db'>> {
  return newDatabase(server ?? (await testEngine()).address);
}

/** Makes the template that `migratedDatabase` copies. @returns its name */
export async function makeTemplate(server: DatabaseAddress): Promise<string> {
  const name = 'letterhaus_test_template';
  await maintain(server, `create database ${name}`);
  await migrateForTests(addressOf(server, name));
  await maintain(server, `alter database ${name} allow_connections false`);
  return name;
}

async function migrateForTests(address: DatabaseAddress): Promise<void> {
  await migrate(address, { nowMs: Date.now(), acceptAnyDurability: true });
}

async function newDatabase(
  server: DatabaseAddress,
  options = '',
): Promise<Omit<TestDatabase, 'db'>> {
  const name = `letterhaus_test_${randomBytes(6).toString('hex')}`;
  await maintain(server, `create database ${name} ${options}`);
  const dropLogins = await droppingLoginsOf(server, name);
  const address = addressOf(server, name);
  const owner = keptConnection(address);
  return {
    address,
    url: urlOf(address),
    sql: async (text, values) => (await owner.query(text, values)).rows,
    async setReachable(isReachable) {
      await maintain(server, `alter database ${name} allow_connections ${isReachable}`);
      if (isReachable) return;
      const mine = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`;
      await maintain(server, mine);
    },
    async [Symbol.asyncDispose]() {
      if (!owner.ending) await owner.end();
      await maintain(server, `drop database if exists ${name} with (force)`);
      await maintain(server, dropLogins);
    },
  };
}

/** Roles belong to the whole server. Those of workers have the database in their name. */
async function droppingLoginsOf(server: DatabaseAddress, name: string): Promise<string> {
  const sql = `select oid from pg_database where datname = '${name}'`;
  const [row] = await maintain(server, sql);
  return `do $$ declare login text; begin
    for login in select rolname from pg_roles where rolname ~ '^letterhaus_${row.oid}_' loop
      execute format('drop role %I', login);
    end loop;
  end $$`;
}

export type ProxiedDatabase = Omit<TestDatabase, 'db'> & { proxy: TcpProxy };

/** Returns the same with a proxy in front: `url` uses it, `address` does not. */
export async function proxiedDatabase(
  make: () => Promise<Omit<TestDatabase, 'db'>> = migratedDatabase,
): Promise<ProxiedDatabase> {
  const present = await make();
  const { host, port, user, password, database } = new pg.Client(present.address);
  const isSocket = host.startsWith('/');
  const proxy = await startTcpProxy(
    isSocket ? { path: `${host}/.s.PGSQL.${port}` } : { host, port },
  );
  const login = [user ?? '', ...(password ? [password] : [])].map(encodeURIComponent).join(':');
  return {
    ...present,
    url: `postgres://${login}@127.0.0.1:${proxy.port}/${database}`,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await present[Symbol.asyncDispose]();
    },
  };
}

// oxlint-disable-next-line typescript/no-explicit-any
async function maintain(server: DatabaseAddress, statement: string): Promise<any[]> {
  const name = JSON.stringify(server);
  const kept = toServers.get(name) ?? keptConnection(server);
  toServers.set(name, kept);
  return (await kept.query(statement)).rows;
}

/** Only one server, except in the drill. */
const toServers = new Map<string, pg.Pool>();

/**
 * Returns a kept connection, which is opened at first use and after a loss, and does not keep the process running.
 * Opening one takes 4 ms of CPU time, a short statement a quarter of one.
 */
function keptConnection(address: DatabaseAddress): pg.Pool {
  const pool = new pg.Pool({ ...address, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  // A running statement fails with the lost connection.
  pool.on('error', () => {});
  return pool;
}

function addressOf(server: DatabaseAddress, database: string): DatabaseAddress {
  const { connectionString: url } = server;
  if (url === undefined) return { ...server, database };
  // `new URL` refuses `postgres://user@/name?host=/folder`, which pg accepts.
  return { connectionString: url.replace(/^(\w+:\/\/[^/?]*)\/?[^?]*/, `$1/${database}`) };
}

function urlOf({ connectionString, host, user, database }: DatabaseAddress): string {
  if (connectionString !== undefined) return connectionString;
  return `postgres://${user}@localhost/${database}?host=${encodeURIComponent(host ?? '')}`;
}
