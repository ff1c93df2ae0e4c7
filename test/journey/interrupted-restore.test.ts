/**
 * A restore that is killed, and two restores at once: the target is unusable until a restore has ended, and its refusal
 * says so.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileDestination } from '../../src/backup/places/folder-place.ts';
import { makeBackup } from '../../src/backup/make-backup.ts';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { readRunning } from '../../src/database/embedded/lock.ts';
import { socketAddress, withClient } from '../../src/database/embedded/postmaster.ts';
import { ask, open, temporaryFolder } from '../support/embedded.ts';
import { cleanEnv, type Env, letterhaus, MAIN } from '../support/letterhaus.ts';
import { emptyDatabase, migratedDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const SECRET_KEY = 'a secret key of at least 32 characters';
const INTERRUPTED =
  /A restore into this database is running or was interrupted.*repeat `letterhaus restore FILE`/;
/** The restore creates the same table, so it waits for the end of this transaction. */
const BLOCK = 'create table projects ()';

const backup = join(temporaryFolder(), 'a.backup');

before(async () => {
  await using database = await migratedDatabase();
  await makeBackup({
    address: database.address,
    secretKey: SECRET_KEY,
    sealing: null,
    version: '0.1.0',
    openDestination: () => fileDestination(backup, { bytes: 0 }),
  });
});

function homeOf(env: Env): Env {
  return cleanEnv({ LETTERHAUS_SECRET_KEY: SECRET_KEY, PORT: '0', ...env });
}

/** Begins a restore in a process of its own. */
function beginRestore(env: Env) {
  const child = spawn(process.execPath, [MAIN, 'restore', backup], { env, stdio: 'ignore' });
  return {
    kill9: async () => {
      child.kill('SIGKILL');
      if (child.signalCode === null) await once(child, 'exit');
    },
  };
}

async function isRestoreBlocked(address: DatabaseAddress): Promise<boolean> {
  const sql = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
  return withClient(address, async (client) => (await client.query(sql)).rowCount === 1);
}

test('a restore into an external database that is killed has to be repeated, and two do not meet', async () => {
  await using database = await emptyDatabase();
  const home = homeOf({
    DATABASE_URL: database.url,
    LETTERHAUS_DATA_DIR: join(temporaryFolder(), 'data'),
  });
  await database.sql(`begin`);
  await database.sql(BLOCK);
  const first = beginRestore(home);
  await waitFor(() => isRestoreBlocked(database.address), { what: 'the restore to write' });

  const second = await letterhaus(['restore', backup], home);
  assert.equal(second.code, 2);
  assert.match(
    second.stderr,
    /Another restore or move into this database is running\. Wait until it ends\./,
  );
  await first.kill9();
  await database.sql('rollback');
  const started = await letterhaus(['start', '--workers', '1'], home);
  assert.equal(started.code, 2);
  assert.match(started.stderr, INTERRUPTED);
  const migrated = await letterhaus(['migrate'], home);
  assert.match(migrated.stderr, INTERRUPTED);

  const others = `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
  const isGone = async () => (await database.sql(others)).length === 0;
  await waitFor(isGone, { what: 'the end of the killed restore on the server' });
  const repeated = await letterhaus(['restore', backup], home);
  assert.equal(repeated.code, 0, repeated.stderr);
  assert.match(repeated.stdout, /The installation is on hold/);
});

test('a restore into a data directory that is killed has to be repeated', async () => {
  const dataDir = join(temporaryFolder(), 'data');
  const home = homeOf({ LETTERHAUS_DATA_DIR: dataDir });
  {
    await using engine = await open(dataDir);
    assert.ok(engine.pid > 0);
  }
  // A prepared transaction outlives the stop of the server.
  writeFileSync(join(dataDir, 'postgresql.local.conf'), 'max_prepared_transactions = 1\n');
  {
    await using engine = await open(dataDir);
    const block = `begin; ${BLOCK}; prepare transaction 'block'`;
    await withClient(engine.address(), (client) => client.query(block));
  }
  const restore = beginRestore(home);
  const isBlocked = async () => {
    const engine = readRunning(dataDir)?.engine ?? null;
    return engine !== null && isRestoreBlocked(socketAddress(engine.socketDir)).catch(() => false);
  };
  await waitFor(isBlocked, { what: 'the restore to write', timeoutMs: 60_000 });
  await restore.kill9();
  const started = await letterhaus(['start', '--workers', '1'], home);
  assert.equal(started.code, 2);
  assert.match(started.stderr, INTERRUPTED);

  {
    await using engine = await open(dataDir);
    await ask(engine, `rollback prepared 'block'`);
  }
  const repeated = await letterhaus(['restore', backup], home);
  assert.equal(repeated.code, 0, repeated.stderr);
  const migrated = await letterhaus(['migrate'], home);
  assert.equal(migrated.code, 0, migrated.stderr);
});
