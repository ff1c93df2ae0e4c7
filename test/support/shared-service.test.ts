/** Shows that the shared service ends with the process that started it, and leaves nothing behind. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';
import { type KeptService, SHARED_SERVICE } from './kept-service.ts';
import { sharedService } from './shared-service.ts';
import { waitFor } from './wait.ts';

test('projects of one organization and of several see nothing of each other', async () => {
  const service = await sharedService();
  const id = await service.send();
  await service.waitForStatus(id, 'delivered');
  for (const other of [await service.otherProject(), await sharedService()]) {
    assert.equal(other.url, service.url);
    assert.equal((await other.request('GET', `/v1/emails/${id}`)).status, 404);
    assert.deepEqual((await other.request('GET', '/v1/emails')).body.data, []);
  }
});

test('the command line works in the project, and rows are counted in it', async () => {
  const service = await sharedService();
  const { data } = await service.cliJson('domains', 'list');
  assert.deepEqual(
    data.map(({ name }: { name: string }) => name),
    ['acme.test'],
  );
  const other = await service.otherProject();
  assert.deepEqual((await other.cliJson('domains', 'list')).data, []);
  assert.deepEqual([await service.countRows('domains'), await other.countRows('domains')], [1, 0]);
});

test('a wait that times out shows what the service logged about the email', async () => {
  const service = await sharedService();
  const id = await service.send();
  await service.waitForStatus(id, 'delivered');
  const shown = new RegExp(`it is delivered\\n.*"${id}"`);
  const inVain = () =>
    service.waitForStatus(id, 'bounced', { timeoutMs: 1 }).then(
      () => false,
      (error: Error) => shown.test(error.message),
    );
  // The log reaches its file a little later.
  await waitFor(inVain, { what: 'a message that shows the log' });
});

const STARTER = `
import { findService } from ${JSON.stringify(new URL('kept-service.ts', import.meta.url).href)};
console.log(JSON.stringify(await findService()));
setInterval(() => {}, 1_000);`;

test('when the process that started it is killed, the service ends and its files are removed', async () => {
  const { [SHARED_SERVICE]: _, ...env } = process.env;
  const args = ['--input-type=module', '--eval', STARTER];
  const starter = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const messages = text(starter.stderr);
  const [line] = (await once(starter.stdout, 'data')) as [Buffer];
  const { url, logFile } = JSON.parse(line.toString()) as KeptService;
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  assert.ok(existsSync(logFile));
  starter.kill('SIGKILL');
  await waitFor(() => !existsSync(dirname(logFile)), { what: 'the files to be removed' });
  await assert.rejects(fetch(`${url}/healthz`));
  assert.equal(await messages, '');
});
