/** Less than 1 GB free on the database's disk: emails are turned away in time, settling goes on. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { preload } from '../support/preload.ts';
import { type Answer, type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const FULL = join(tmpdir(), `posthorn-test-full-${process.pid}`);
after(() => rmSync(FULL, { force: true }));

/** While the file is there, the supervisor sees a disk with 100 MB left. */
const FULL_DISK = `
  const [fs, { existsSync }, { syncBuiltinESMExports }] = await Promise.all(
    [import('node:fs/promises'), import('node:fs'), import('node:module')]);
  const { statfs } = fs.default;
  fs.default.statfs = async (path) => ({
    ...(await statfs(path)), ...(existsSync('${FULL}') && { bsize: 4096, bavail: 25_600 }),
  });
  syncBuiltinESMExports();`;

function post(service: Service): Promise<Answer> {
  const body = {
    from: 'hello@acme.test',
    to: 'delivered@simulator.test',
    subject: 'Hello',
    text: 'Hello',
  };
  return service.request('POST', '/v1/emails', { body });
}

test('a nearly full disk: 503 with the reason, reading and settling as ever, until there is room', async () => {
  const env = preload('main.ts', FULL_DISK);
  await using service = await startService({ database: 'own', args: ['--workers', '1'], env });
  const id = await service.send({ to: 'deferred@simulator.test' });
  await service.waitForStatus(id, 'deferred');

  writeFileSync(FULL, '');
  const refused = await waitFor(() => post(service).then((one) => one.status === 503 && one), {
    what: 'emails to be refused',
  });
  assert.match(refused.body.error.message, /Nothing was accepted: the disk is nearly full/);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  await service.clock.advance({ minutes: 2 });
  await service.waitForStatus(id, 'delivered');

  const [{ pid }] = await service.sql('select pid from nodes');
  process.kill(pid, 'SIGKILL');
  const isReplaced = async () => (await service.sql('select from nodes where pid <> $1', [pid]))[0];
  await waitFor(isReplaced, { what: 'another worker' });
  const again = await waitFor(() => post(service).catch(() => null), { what: 'an answer' });
  assert.equal(again.status, 503, 'the new worker knows it too');

  rmSync(FULL);
  await waitFor(() => post(service).then(({ status }) => status === 202), { what: 'mail again' });
});
