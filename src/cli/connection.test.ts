/** Shows how commands wait for a service of this machine that is starting. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { tryLock } from '../database/embedded/lock.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { isFailure } from './command.ts';
import { connect, connectWhenStarted } from './connection.ts';

const READY = { url: 'http://127.0.0.1:3000', adminSocket: '/run/admin' };
const WAITS = ['The service is not ready yet. The command waits for it.\n'];

function dataDirectory() {
  const dataDir = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  return { dataDir, [Symbol.dispose]: () => rmSync(dataDir, { recursive: true }) };
}

/** Connects, and calls `onWait` when the command says that it waits. */
async function connectIn(dataDir: string, onWait: () => void, rules = {}) {
  const said: string[] = [];
  const err = (text: string) => {
    said.push(text);
    onWait();
  };
  const cli = { env: { LETTERHAUS_DATA_DIR: dataDir }, err, world: systemWorld };
  return { connection: await connectWhenStarted(cli, {}, rules), said };
}

test('a command waits for a service on this machine that is starting, and says so once', async () => {
  using directory = dataDirectory();
  const lock = tryLock(directory.dataDir, 'service');
  assert.ok(lock);
  const now = connect({ env: { LETTERHAUS_DATA_DIR: directory.dataDir } }, {});
  assert.match(isFailure(now) ? now.failed : '', /^The service is starting: repeat the command/);
  const { connection, said } = await connectIn(directory.dataDir, () => lock.publish(READY));
  assert.ok(!isFailure(connection));
  assert.deepEqual(said, WAITS);
  lock.release();
});

test('go-live, pasted below the command that starts the service, waits for a service that has no lock yet', async () => {
  using directory = dataDirectory();
  const { dataDir } = directory;
  const absent = await connectIn(dataDir, () => {});
  assert.match(
    isFailure(absent.connection) ? absent.connection.failed : '',
    /^No service is running/,
  );
  assert.deepEqual(absent.said, []);
  let lock: ReturnType<typeof tryLock> = null;
  const start = () => (lock = tryLock(dataDir, 'service'))?.publish(READY);
  const { connection, said } = await connectIn(dataDir, start, { followsStart: true });
  assert.ok(!isFailure(connection));
  assert.deepEqual(said, WAITS);
  (lock as ReturnType<typeof tryLock>)?.release();
});
