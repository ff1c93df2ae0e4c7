/** Starts that cannot succeed: they end soon, say why, and leave nothing behind. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { removeDataDir } from '../../src/database/embedded/layout.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { preload } from '../support/preload.ts';
import { startService } from '../support/service.ts';

/** In order: the first tests show that it stays away, later ones that their database has stopped. */
const folder = await mkdtemp(join(tmpdir(), 'letterhaus-test-'));
const dataDir = join(folder, 'data');
after(() => {
  if (existsSync(dataDir)) removeDataDir(dataDir);
  return rm(folder, { recursive: true, force: true });
});

test('a configured port that is in use ends the start before anything is created', async () => {
  await using taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const env = { LETTERHAUS_DATA_DIR: dataDir, PORT: String(port) };
  const { code, stdout, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /^letterhaus: PORT: port \d+ is in use .*\n$/);
  assert.equal(existsSync(dataDir), false);
});

test('a host name that is invalid in EHLO ends the start before anything is created', async () => {
  const env = { LETTERHAUS_DATA_DIR: dataDir, LETTERHAUS_HOSTNAME: 'mail' };
  const { code, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 2);
  assert.match(stderr, /^letterhaus: LETTERHAUS_HOSTNAME: mail is not fully qualified\. .*\n$/);
  assert.equal(existsSync(dataDir), false);
});

test('a second start on the same port names the running service', async () => {
  await using service = await startService();
  const env = { ...service.env, PORT: new URL(service.url).port };
  const { code, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 2);
  assert.ok(stderr.includes(service.url) && stderr.includes(String(service.pid)), stderr);
});

test('the start fails when workers die while starting', async () => {
  const env = {
    LETTERHAUS_DATA_DIR: dataDir,
    PORT: '0',
    ...preload('worker.ts', 'process.exit(7);'),
  };
  const { code, stdout, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /a worker died.*"code":7|"code":7.*a worker died/);
  assert.match(stderr, /letterhaus: The workers cannot run; the log says why\./);
  assert.equal(existsSync(join(dataDir, 'pg', 'postmaster.pid')), false);
});

test('the start fails with the reason when a worker cannot work', async () => {
  const broken = `import('node:net').then(({ Server }) => {
    Server.prototype.listen = () => { throw new Error('listening is not to be'); };
  });`;
  const env = { LETTERHAUS_DATA_DIR: dataDir, PORT: '0', ...preload('worker.ts', broken) };
  const { code, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 1);
  assert.match(stderr, /letterhaus: .*listening is not to be/);
  assert.equal(existsSync(join(dataDir, 'pg', 'postmaster.pid')), false);
});
