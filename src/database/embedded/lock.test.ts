/** Real processes compete for one data directory, and some of them are killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { optionsFor, temporaryFolder } from '../../../test/support/embedded.ts';
import { readRunning, takeLock, tryLock } from './lock.ts';

const { world } = optionsFor('');

/** Prints whether it got the lock, and keeps it until its stdin closes. */
const CONTENDER = `
  import { tryLock } from ${JSON.stringify(new URL('lock.ts', import.meta.url).href)};
  console.log(tryLock(process.argv[1], 'service') ? 'won' : 'lost');
  process.stdin.resume();`;

function contend(dataDir: string) {
  const args = ['--input-type=module', '-e', CONTENDER, dataDir];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const said = once(createInterface(child.stdout), 'line').then(([line]) => String(line));
  return { child, said, exit: once(child, 'exit') };
}

test('of ten concurrent starts exactly one holds the data directory', async () => {
  const dataDir = temporaryFolder();
  const all = Array.from({ length: 10 }, () => contend(dataDir));
  const answers = await Promise.all(all.map(({ said }) => said));
  for (const { child } of all) child.stdin.end();
  await Promise.all(all.map(({ exit }) => exit));
  assert.deepEqual(answers.toSorted(), [...Array.from({ length: 9 }, () => 'lost'), 'won']);
});

test('a killed holder releases the directory at once', async () => {
  const dataDir = temporaryFolder();
  const holder = contend(dataDir);
  assert.equal(await holder.said, 'won');
  assert.equal(tryLock(dataDir, 'service'), null);
  holder.child.kill('SIGKILL');
  await holder.exit;
  const lock = tryLock(dataDir, 'service');
  assert.ok(lock);
  lock.release();
});

test('a second service gets the address and pid of the running one', async () => {
  const dataDir = temporaryFolder();
  const lock = await takeLock(dataDir, world);
  lock.publish({ url: 'http://127.0.0.1:3000' });
  const running = {
    pid: process.pid,
    kind: 'service',
    url: 'http://127.0.0.1:3000',
    adminSocket: null,
    engine: null,
  };
  await assert.rejects(takeLock(dataDir, world), {
    kind: 'running',
    message: new RegExp(`already running on ${dataDir} .pid ${process.pid}, http://127.0.0.1:3000`),
    running,
  });
  lock.release();
  assert.equal(readRunning(dataDir), null);
});

test('a service waits for a command that holds the directory for a moment', async () => {
  const dataDir = temporaryFolder();
  const command = tryLock(dataDir, 'command');
  assert.ok(command);
  const service = takeLock(dataDir, world);
  command.release();
  (await service).release();
});
