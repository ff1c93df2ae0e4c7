/**
 * Starts real PostgreSQL servers in folders of their own: first start, next start, crash, takeover by commands, another
 * major version.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { AS_ROOT, ask, askUntilAnswered } from '../../../test/support/embedded.ts';
import { open, optionsFor, startHolder } from '../../../test/support/embedded.ts';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { connectRunning } from './engine.ts';
import { withClient } from './postmaster.ts';
import { readFreeBytes } from '../server/capacity.ts';

// One database for the file, in a path with characters that operators use. Each test opens it anew.
const dataDir = join(temporaryFolder(), "it's a, data dir");

test('an empty folder becomes a durable database that only its owner can reach', async () => {
  mkdirSync(join(dataDir, 'unfinished-by-a-killed-start'), { recursive: true });
  mkdirSync(join(dataDir, 'engine-of-an-older-version'));
  await using engine = await open(dataDir);
  assert.equal(engine.version.split('.')[0], '18');
  assert.equal(engine.isAdopted, false);
  assert.equal(engine.lines.length, 1);
  assert.match(
    engine.lines[0]!,
    /^There is no database yet\. It is created in .* with 130 MB of the/,
  );
  for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums']) {
    assert.equal(await ask(engine, `show ${setting}`), 'on', setting);
  }
  assert.equal(await ask(engine, 'show listen_addresses'), '');
  assert.equal(
    await ask(engine, 'select current_database() || current_user'),
    'letterhausletterhaus',
  );
  for (const folder of ['pg', 'socket', 'secrets']) {
    assert.equal(statSync(join(dataDir, folder)).mode & 0o777, 0o700, folder);
  }
  const names = readdirSync(dataDir).join(' ');
  assert.doesNotMatch(names, /unfinished|older/);
  assert.ok((await readFreeBytes(engine.databaseDir)) > 0);
});

test('a disk that is too small for a new database is named before anything is written to it', async () => {
  const folder = temporaryFolder();
  const small = { readFreeBytes: () => Promise.resolve(90_900_000) };
  await assert.rejects(open(folder, small), {
    kind: 'no-space',
    message:
      /^A new database needs 130 MB of disk, and .* has 90 MB free: make space, or set LETTERHAUS_DATA_DIR/,
  });
  assert.deepEqual(
    readdirSync(folder).filter((name) => /^(pg|engine)/.test(name)),
    [],
  );
  // A database that exists starts on a full disk, so that its mail is delivered.
  await using engine = await open(dataDir, small);
  assert.deepEqual(engine.lines, []);
});

test('as root the database runs as a private user, otherwise as the current user', async () => {
  await using engine = await open(dataDir);
  const { uid } = statSync(join(engine.databaseDir, 'pg'));
  if (AS_ROOT) assert.ok(uid >= 60_706 && uid < 61_184, String(uid));
  else assert.equal(uid, process.geteuid?.());
  assert.equal(statSync(engine.socketDir).uid, uid);
  assert.equal(statSync(`/proc/${engine.pid}`, { throwIfNoEntry: false })?.uid ?? uid, uid);
});

test('psql-style URLs and settings of the operator reach the database', async () => {
  await open(dataDir).then((engine) => engine.stop());
  writeFileSync(join(dataDir, 'postgresql.local.conf'), 'work_mem = 5MB\nfsync = off\n');
  await using engine = await open(dataDir);
  const byUrl = { connectionString: engine.url() };
  const { rows } = await withClient(byUrl, (client) => client.query('show work_mem'));
  assert.deepEqual(rows, [{ work_mem: '5MB' }]);
  assert.equal(await ask(engine, 'show fsync'), 'on');
});

test('stored data is present after the next start', async () => {
  const first = await open(dataDir);
  await ask(first, `create table stored as select 'mail' as what`);
  await first.stop();
  assert.equal(existsSync(join(dataDir, 'running.json')), false);
  await using second = await open(dataDir);
  assert.equal(await ask(second, 'select what from stored'), 'mail');
});

test('a killed server is restarted with everything committed', async () => {
  await using engine = await open(dataDir);
  await ask(engine, `create table committed as select 'mail' as what`);
  const killed = engine.pid;
  process.kill(killed, 'SIGKILL');
  await waitFor(() => engine.pid !== killed, { what: 'another server' });
  assert.equal(await askUntilAnswered(engine, 'select what from committed'), 'mail');
  assert.match(engine.lines.join(), /exited \(killed by SIGKILL\) and is restarted/);
});

test('a server that cannot be restarted is given up, and the service is notified', async () => {
  await using engine = await open(dataDir);
  const home = join(dataDir, readdirSync(dataDir).find((name) => name.startsWith('engine-')) ?? '');
  const reasons: string[] = [];
  engine.onExit((reason) => reasons.push(reason));
  renameSync(join(home, 'bin'), join(home, 'bin-elsewhere'));
  process.kill(engine.pid, 'SIGKILL');
  await waitFor(() => reasons.length > 0, { what: 'the engine to give up' });
  renameSync(join(home, 'bin-elsewhere'), join(home, 'bin'));
  assert.match(reasons[0] ?? '', /did not start.*cannot be run/);
});

test('a database of another major version is refused unchanged, with a remedy', async () => {
  await open(dataDir).then((engine) => engine.stop());
  const file = join(dataDir, 'pg', 'PG_VERSION');
  writeFileSync(file, '14\n');
  await assert.rejects(open(dataDir), {
    kind: 'other-major',
    message: /made by PostgreSQL 14.*runs PostgreSQL 18.*letterhaus move.*letterhaus backup/,
  });
  writeFileSync(file, '18\n');
  await using engine = await open(dataDir);
  assert.equal(await ask(engine, 'select 1'), 1);
});

const commandDir = temporaryFolder();
const pidFile = join(commandDir, 'pg', 'postmaster.pid');

test('a command uses the database of the service that runs, and leaves it running', async () => {
  const service = await startHolder({ dataDir: commandDir, url: 'http://127.0.0.1:3999' });
  {
    await using connection = await connectRunning(optionsFor(commandDir));
    assert.equal(connection.isShared, true);
    assert.equal(await ask(connection, 'select 1'), 1);
  }
  await assert.rejects(open(commandDir), { kind: 'running', message: /127\.0\.0\.1:3999/ });
  assert.ok(existsSync(pidFile));
  await service.stop();
});

test('without a service the database runs for the one command and no longer', async () => {
  {
    await using connection = await connectRunning(optionsFor(commandDir));
    assert.equal(connection.isShared, false);
    assert.equal(await ask(connection, 'select 1'), 1);
  }
  assert.equal(existsSync(pidFile), false);
});

test('concurrent commands run one after the other', async () => {
  const command = async () => {
    await using connection = await connectRunning(optionsFor(commandDir));
    return await ask(connection, 'select 1');
  };
  assert.deepEqual(await Promise.all([command(), command(), command()]), [1, 1, 1]);
});
