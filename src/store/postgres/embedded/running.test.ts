import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ask, open, optionsFor } from '../../../../test/support/embedded.ts';
import { startHolder, temporaryFolder } from '../../../../test/support/embedded.ts';
import { connectRunning } from './running.ts';

const dataDir = temporaryFolder();
const pidFile = join(dataDir, 'pg', 'postmaster.pid');

test('a command uses the database of the service that runs, and leaves it running', async () => {
  const service = await startHolder({ dataDir, url: 'http://127.0.0.1:3999' });
  {
    await using connection = await connectRunning(optionsFor(dataDir));
    assert.equal(connection.shared, true);
    assert.equal(await ask(connection, 'select 1'), 1);
  }
  await assert.rejects(open(dataDir), { kind: 'running', message: /127\.0\.0\.1:3999/ });
  assert.ok(existsSync(pidFile));
  await service.stop();
});

test('without a service the database runs for the one command and no longer', async () => {
  {
    await using connection = await connectRunning(optionsFor(dataDir));
    assert.equal(connection.shared, false);
    assert.equal(await ask(connection, 'select 1'), 1);
  }
  assert.equal(existsSync(pidFile), false);
});

test('commands at the same moment take turns', async () => {
  const command = async () => {
    await using connection = await connectRunning(optionsFor(dataDir));
    return await ask(connection, 'select 1');
  };
  assert.deepEqual(await Promise.all([command(), command(), command()]), [1, 1, 1]);
});
