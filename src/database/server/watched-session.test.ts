/** Connections that die in silence: packets vanish, and neither side gets an error. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import {
  asOwner,
  emptyDatabase,
  proxiedDatabase,
  testDatabase,
} from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { clientQueries, connectAsOwner, Database, DatabaseUnavailable } from '../database.ts';
import { lockMigrations, migrate } from '../../migration/migrate.ts';
import type { SilenceLimits } from './watched-session.ts';

const SHORT: SilenceLimits = { everyMs: 50, timeoutMs: 5_000, checksMax: 3 };
/** For a network on which no connection opens any more. */
const SHORTEST: SilenceLimits = { ...SHORT, timeoutMs: 1_000 };
const MIGRATING = {
  nowMs: Date.now(),
  acceptAnyDurability: true,
  secretKey: { dataDir: '/', configured: 'a secret key of at least thirty-two characters' },
};

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());

/** Every statement of a migration in order, each by a text that only it has. */
const STATEMENTS = [
  'pg_backend_pid() as pid',
  'server_version_num',
  'set lock_timeout = 0',
  'idle_session_timeout',
  'pg_advisory_lock',
  'to_regclass',
  'begin',
  'set local lock_timeout',
  'create table emails',
  'status_transitions',
  'pg_inherits',
  'attach partition',
  'commit',
  'create role letterhaus_app',
  'set role letterhaus_app',
  'reset role',
  'has_table_privilege',
] as const;

describe('a migration on a connection that dies in silence', { concurrency: 4 }, () => {
  for (const [index, text] of STATEMENTS.entries()) {
    // Half of the connections are on a network that loses everything.
    const all = index % 2 === 0;
    test(`is given up at the statement "${text}"`, async () => {
      await using empty = await proxiedDatabase(emptyDatabase);
      const forgotten = empty.proxy.forgetAt(text, { all });
      const address = { connectionString: empty.url };
      const migrating = migrate(address, { ...MIGRATING, silence: all ? SHORTEST : SHORT });
      await assert.rejects(migrating, (error: Error) => {
        assert.ok(error instanceof DatabaseUnavailable, String(error));
        assert.match(error.message, /^the database cannot be reached: [^:]*(?:failed: )?[^:]*$/);
        return true;
      });
      await forgotten;
    });
  }
});

test('a statement that the server works on is awaited', async () => {
  const client = await connectAsOwner(database.address, 'busy', { silence: SHORT });
  await client.query('select pg_sleep(1)');
  await client.end();
});

const CHECKS = `
select pid from pg_stat_activity where application_name = 'letterhaus waiting check'`;

test('a lock that another node holds is awaited', async () => {
  await asOwner(database.address, async (other) => {
    await lockMigrations(other);
    const client = await connectAsOwner(database.address, 'waiting', { silence: SHORT });
    const db = clientQueries(client);
    const waiting = lockMigrations(db);
    const seen = new Set<number>();
    const isChecked = async (): Promise<boolean> => {
      for (const { pid } of await other.query<{ pid: number }>(CHECKS)) seen.add(pid);
      return seen.size > SHORT.checksMax;
    };
    await waitFor(isChecked, { what: 'many checks', everyMs: 1, timeoutMs: 60_000 });
    await other.query('select pg_advisory_unlock_all()');
    await waiting;
    await client.end();
  });
});

test('a statement that waits ends when it is aborted', async () => {
  const aborting = new AbortController();
  const client = await connectAsOwner(database.address, 'aborted', { signal: aborting.signal });
  const sleeping = client.query('select pg_sleep(600)');
  aborting.abort();
  await assert.rejects(sleeping, /ended by a stop/);
  await client.end();
});

test('connections to a silent server are closed, too', async () => {
  await using other = await proxiedDatabase();
  const address = { connectionString: other.url };
  const db = new Database(address, { role: null, name: 'test' });
  const client = await connectAsOwner(address, 'test');
  await db.query('select 1');
  other.proxy.forget();
  const asking = assert.rejects(db.query('select 1'), DatabaseUnavailable);
  await Promise.all([client.end(), db.close(), asking]);
});
