/** Tests of the harness itself, on which other tests rely. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startFakeDns } from './fake-dns.ts';
import { startService } from './service.ts';
import { ServiceProcess } from './service-process.ts';
import { waitFor } from './wait.ts';

const dns = await startFakeDns();
after(() => dns[Symbol.asyncDispose]());
const service = await startService({ dns, database: 'own' });
after(() => service[Symbol.asyncDispose]());

test('moving the clock moves the database time', async () => {
  await service.clock.advance({ hours: 5, minutes: 30 });
  await service.clock.advance({ minutes: 30 });
  const [row] = await service.sql('select extract(epoch from app_now() - now())::int as ahead_s');
  assert.equal(row.ahead_s, 6 * 3600);
});

test('a live domain is verified through the given DNS', async () => {
  await service.addLiveDomain('acme.example');
  const key = await service.liveKey();
  const { body } = await service.request('GET', '/v1/domains', { key });
  assert.equal(body.data[0].status, 'verified');
  assert.ok(dns.queries.some(({ name }) => name.endsWith('_domainkey.acme.example')));
});

test('a killed service starts again on its own database, and everything is removed at the end', async () => {
  const { dataDir } = service;
  const id = await service.send();
  const pids = [service.pid];
  await service.killGroup9();
  await assert.rejects(service.request('GET', '/healthz'));
  await service.restart();
  await service.waitForStatus(id, 'delivered');
  await service.kill9();
  await service.restart();
  assert.equal((await service.email(id)).status, 'delivered');
  pids.push(service.pid);
  const [row] = await service.sql(`select current_setting('data_directory') as folder`);
  assert.ok(row.folder.startsWith(dataDir));

  await service[Symbol.asyncDispose]();
  assert.ok(!existsSync(dataDir));
  await waitFor(() => pids.every((pid) => !isAlive(pid)), { what: 'the processes to be gone' });
});

test('the log of a running service has whole lines only, however its output is cut', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  after(() => rmSync(folder, { recursive: true }));
  const launcher = join(folder, 'writes.mjs');
  writeFileSync(
    launcher,
    `process.stderr.write('{"a":1}\\n{"b":', () => process.stdout.write('{}\\n'));
     setInterval(() => {}, 60_000);`,
  );
  const writing = new ServiceProcess([], {}, { launcher });
  await writing.ready();
  await waitFor(() => writing.logs.includes('a'), { what: 'the first line' });
  assert.equal(writing.logs, '{"a":1}\n');
  await writing.stop();
  assert.equal(writing.logs, '{"a":1}\n{"b":');
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
