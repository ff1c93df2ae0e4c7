/** A PostgreSQL server that survived its service, which was killed: the next service takes it over, or restarts it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ask, askUntilAnswered, open } from '../../../test/support/embedded.ts';
import { startHolder, temporaryFolder } from '../../../test/support/embedded.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { withClient } from './postmaster.ts';
import { isAlive } from './process.ts';

const dataDir = temporaryFolder();
const pidFile = join(dataDir, 'pg', 'postmaster.pid');

test('a database whose service was killed keeps running, is taken over, and stops with its new owner', async () => {
  const service = await startHolder({ dataDir });
  await service.kill();
  assert.ok(isAlive(service.engine.pid), 'the database must survive its killed service');
  const engine = await open(dataDir);
  assert.equal(engine.isAdopted, true);
  assert.equal(engine.pid, service.engine.pid);
  assert.match(engine.lines.join(), /Took over the database/);
  await ask(engine, `create table kept as select 'mail' as what`);
  await engine.stop();
  assert.equal(existsSync(pidFile), false);
});

test('a database that was taken over is restarted when it dies', async () => {
  await (await startHolder({ dataDir })).kill();
  await using engine = await open(dataDir);
  const killed = engine.pid;
  process.kill(killed, 'SIGKILL');
  await waitFor(() => engine.pid !== killed, { what: 'another server' });
  assert.equal(await askUntilAnswered(engine, 'select what from kept'), 'mail');
});

test('a database left running with other settings is restarted with the new ones', async () => {
  const service = await startHolder({ dataDir });
  await service.kill();
  writeFileSync(join(dataDir, 'postgresql.local.conf'), 'work_mem = 6MB\n');
  await using engine = await open(dataDir);
  assert.equal(engine.isAdopted, false);
  assert.notEqual(engine.pid, service.engine.pid);
  assert.equal(await ask(engine, 'show work_mem'), '6MB');
});

test('a postmaster.pid of another process, or an empty one, is moved aside with a log line', async () => {
  await open(dataDir).then((engine) => engine.stop());
  const stranger = spawn('cat', { stdio: ['pipe', 'ignore', 'inherit'] });
  try {
    for (const content of [`${stranger.pid}\n${join(dataDir, 'pg')}\n`, '']) {
      writeFileSync(pidFile, content, { mode: 0o644 });
      await using engine = await open(dataDir, { stalePidWaitMs: 100 });
      assert.equal(await ask(engine, 'select 1'), 1);
      assert.match(engine.lines.join(), /Moved .*postmaster.pid aside/);
      assert.equal(readFileSync(`${pidFile}.stale`, 'utf8'), content);
    }
    assert.ok(isAlive(stranger.pid as number), 'the stranger is left alone');
  } finally {
    stranger.stdin.end();
  }
});

test('a server waits for the shared memory of its predecessor', async () => {
  await using engine = await open(dataDir);
  const backend = await withClient(engine.address(), async (client) => {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const { pid } = rows[0] as { pid: number };
    process.kill(pid, 'SIGSTOP'); // frozen, it does not notice the death of its postmaster
    process.kill(engine.pid, 'SIGKILL');
    await waitFor(() => readFileSync(engine.logFile, 'utf8').includes('is still in use'), {
      what: 'PostgreSQL to notice the frozen backend',
    }).finally(() => process.kill(pid, 'SIGKILL'));
    return pid;
  }).catch((error: unknown) => error);
  assert.ok(backend instanceof Error || typeof backend === 'number');
  assert.equal(await askUntilAnswered(engine, 'select what from kept'), 'mail');
});
