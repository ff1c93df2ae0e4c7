/**
 * Shows where the data directory puts the database, its sockets and its locks, who may read them, and what is refused.
 * Some tests need root and change to another user.
 */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, statSync, symlinkSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { AS_ROOT, OTHER_UID, ask } from '../../../test/support/embedded.ts';
import { open, startHolder, temporaryFolder } from '../../../test/support/embedded.ts';
import { DEFAULT_SEARCH, findEngine, installEngine } from './binaries.ts';
import { createPrivateFolder } from './folders.ts';
import {
  chooseSocketDir,
  removeShortSocketDir,
  ADMIN_SOCKET,
  prepareDataDir,
  removeDataDir,
} from './layout.ts';
import { socketAddress, withClient } from './postmaster.ts';

test('below a private folder the database of root is elsewhere, and databases of other users are inside', async () => {
  const open711 = temporaryFolder();
  const dataDir = join(open711, 'closed', 'data');
  const closedParentHome = join(open711, 'var');
  mkdirSync(dirname(dataDir), { mode: 0o700 });
  const databaseDirs = [];
  for (const start of ['first', 'second']) {
    await using engine = await open(dataDir, { closedParentHome });
    assert.equal(await ask(engine, 'select 1'), 1, start);
    databaseDirs.push(engine.databaseDir);
    if (AS_ROOT) assert.match(engine.lines.join(), /closed is closed to.*lives in .*\/var\/db-/);
    else assert.equal(engine.databaseDir, dataDir);
  }
  assert.equal(databaseDirs[0], databaseDirs[1]);
  assert.equal(statSync(join(dataDir, 'secrets')).mode & 0o777, 0o700);
  removeDataDir(dataDir, closedParentHome);
  assert.deepEqual([dataDir, ...databaseDirs].filter(existsSync), []);
});

test('an ordinary user runs the database as itself, with the programs of the machine', async () => {
  const home = temporaryFolder();
  // A PostgreSQL that is installed on the machine, known only by the folder of its programs.
  const programs = await installEngine(findEngine(DEFAULT_SEARCH, null), home);
  const search = { packagesFrom: [], hostCommands: [], hostFolders: [programs] };
  const dataDir = join(home, 'data');
  mkdirSync(dataDir);
  if (AS_ROOT) chownSync(dataDir, OTHER_UID, OTHER_UID);
  const user = AS_ROOT ? { asUser: OTHER_UID } : {};
  const service = await startHolder({ dataDir, search, ...user });
  assert.equal(service.engine.version.split('.')[0], '18');
  const found = await withClient(socketAddress(service.engine.socketDir), (client) =>
    client.query('select 1 as one'),
  );
  assert.deepEqual(found.rows, [{ one: 1 }]);
  await service.stop();
  assert.equal(statSync(join(dataDir, 'pg')).uid, AS_ROOT ? OTHER_UID : process.geteuid?.());
});

test('a path too long for a socket gets a short private folder instead', async () => {
  const dataDir = join(temporaryFolder(), 'long'.repeat(25));
  const engine = await open(dataDir);
  assert.equal(await ask(engine, 'select 1'), 1);
  assert.notEqual(dirname(engine.socketDir), dataDir);
  assert.equal(statSync(engine.socketDir).mode & 0o777, 0o700);
  await engine.stop();
  assert.equal(existsSync(engine.socketDir), false);
});

test('a short socket folder of another user is not used', () => {
  const base = temporaryFolder();
  const databaseDir = `/${'x'.repeat(120)}`;
  const made = chooseSocketDir(databaseDir, null, [base]);
  assert.equal(chooseSocketDir(databaseDir, null, [base]), made);
  chmodSync(made, 0o755);
  assert.throws(() => chooseSocketDir(databaseDir, null, [base]), { kind: 'socket-folder' });
  const trap = temporaryFolder();
  createPrivateFolder(join(trap, 'theirs'), null);
  symlinkSync(join(trap, 'theirs'), join(trap, made.slice(base.length)));
  assert.throws(() => chooseSocketDir(databaseDir, null, [trap]), { kind: 'socket-folder' });
});

test('the socket of the command line gets a folder with a random name where another user has taken its name', () => {
  const base = temporaryFolder();
  const dataDir = `/${'x'.repeat(120)}`;
  const fixed = chooseSocketDir(dataDir, null, [base], ADMIN_SOCKET);
  chmodSync(fixed, 0o755);
  const random = chooseSocketDir(dataDir, null, [base], ADMIN_SOCKET);
  assert.ok(random.startsWith(`${fixed}-`));
  assert.equal(statSync(random).mode & 0o777, 0o700);
  removeShortSocketDir(random, dataDir);
  assert.equal(existsSync(random), false);
});

test('a short socket folder is made only where no other user can rename it', () => {
  const dataDir = `/${'x'.repeat(120)}`;
  const base = temporaryFolder();
  chmodSync(base, 0o777);
  const refused = { kind: 'socket-folder' };
  assert.throws(() => chooseSocketDir(dataDir, null, [base], ADMIN_SOCKET), refused);
  chmodSync(base, 0o1777);
  assert.equal(dirname(chooseSocketDir(dataDir, null, [base], ADMIN_SOCKET)), base);
  if (!AS_ROOT) return;
  const theirs = temporaryFolder();
  chownSync(theirs, OTHER_UID, OTHER_UID);
  assert.throws(() => chooseSocketDir(dataDir, null, [theirs], ADMIN_SOCKET), refused);
});

test('root makes no short socket folder in the temporary folder of its environment', () => {
  if (!AS_ROOT) return;
  const dataDir = `/${'x'.repeat(120)}`;
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = temporaryFolder();
  const made = chooseSocketDir(dataDir, null, undefined, ADMIN_SOCKET);
  assert.ok(['/run', '/tmp'].includes(dirname(made)), made);
  removeShortSocketDir(made, dataDir);
  if (TMPDIR === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = TMPDIR;
});

test('a data directory of another user is refused and its owner named', () => {
  const folder = temporaryFolder();
  if (AS_ROOT) chownSync(folder, OTHER_UID, OTHER_UID);
  const foreign = AS_ROOT ? folder : '/usr';
  const owner = AS_ROOT ? /belongs to \w+ \(uid 65534\)/ : /belongs to root \(uid 0\)/;
  assert.throws(() => prepareDataDir(foreign), { kind: 'wrong-user', message: owner });
});

test('an unusable data directory is refused with a remedy', () => {
  const folder = temporaryFolder();
  const file = join(folder, 'file');
  writeFileSync(file, '');
  symlinkSync(join(folder, 'nothing'), join(folder, 'dangling'));
  const noFolder = { kind: 'unusable-path', message: /file is no folder: set LETTERHAUS_DATA_DIR/ };
  assert.throws(() => prepareDataDir(file), noFolder);
  assert.throws(() => prepareDataDir(join(file, 'data')), noFolder);
  const unusable = { kind: 'unusable-path', message: /cannot be used \(.*set LETTERHAUS_DATA_DIR/ };
  assert.throws(() => prepareDataDir(join(folder, 'dangling')), unusable);
  assert.throws(() => prepareDataDir(join(folder, 'x'.repeat(300))), unusable);
  // On Linux, mkdir always answers here as if the parent were missing.
  if (existsSync('/proc/self')) assert.throws(() => prepareDataDir('/proc/data/x'), unusable);
});

test('a path with shell characters is refused', async () => {
  const folder = temporaryFolder();
  const problem = { kind: 'unusable-path', message: /LETTERHAUS_DATA_DIR/ };
  await assert.rejects(open(join(folder, 'data $(touch evil)')), problem);
  await assert.rejects(open(join(folder, 'data "x"')), problem);
});

test('a data directory that is created, or was empty, is closed to other users, under any umask', () => {
  const folder = temporaryFolder();
  const [made, empty] = [join(folder, 'made'), join(folder, 'empty')];
  const umask = process.umask(0o000);
  mkdirSync(empty);
  for (const dataDir of [made, empty]) prepareDataDir(dataDir, assert.fail);
  process.umask(umask);
  for (const dataDir of [made, empty]) {
    // As root, the user of the database can pass but read nothing.
    assert.equal(statSync(dataDir).mode & 0o777, AS_ROOT ? 0o711 : 0o700);
    assert.equal(statSync(join(dataDir, 'secrets')).mode & 0o777, 0o700);
  }
});

test('a folder that was in use keeps its mode, with a warning when it is open to other users', () => {
  for (const content of ['something', 'secrets']) {
    const folder = temporaryFolder();
    mkdirSync(join(folder, content));
    const warnings: string[] = [];
    const modeAfter = (mode: number): number => {
      chmodSync(folder, mode);
      prepareDataDir(folder, (line) => void warnings.push(line));
      return statSync(folder).mode & 0o777;
    };
    assert.equal(modeAfter(0o755), 0o755);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0]!, /is open to other users of this machine: run `chmod go=/);
    assert.equal(modeAfter(0o711), 0o711);
    assert.equal(warnings.length, AS_ROOT ? 1 : 2);
  }
});

test('the user of the database can pass through a data directory that root has used', () => {
  if (!AS_ROOT) return;
  const folder = temporaryFolder();
  prepareDataDir(folder);
  chmodSync(folder, 0o700);
  prepareDataDir(folder, assert.fail);
  assert.equal(statSync(folder).mode & 0o777, 0o711);
});
