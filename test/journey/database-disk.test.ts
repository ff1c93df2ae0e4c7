/** The disk of the database is nearly full: the service refuses emails in time, and settles the others. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { addFullDisk } from '../support/full-disk.ts';
import { preload } from '../support/preload.ts';
import { type ApiResponse, type Service, startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

const FULL = join(tmpdir(), `letterhaus-test-full-${process.pid}`);
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

/** On the database that DATABASE_URL names. */
const shared = await startService({
  env: {
    ...preload('main.ts', FULL_DISK),
    LETTERHAUS_LIMIT_SENDING: '100000/60',
    LETTERHAUS_DATABASE_MAX_MB: '64',
  },
});
after(() => shared[Symbol.asyncDispose]());
const disk = await addFullDisk((text) => shared.sql(text));

function post(service: Service): Promise<ApiResponse> {
  const body = {
    from: 'hello@acme.test',
    to: 'delivered@simulator.test',
    subject: 'Hello',
    text: 'Hello',
  };
  return service.request('POST', '/v1/emails', { body });
}

test('with a nearly full disk, sends get 503 with the reason, while reading and settling continue', async () => {
  const env = preload('main.ts', FULL_DISK);
  await using service = await startService({ database: 'own', args: ['--workers', '1'], env });
  const id = await service.send({ to: 'deferred@simulator.test' });
  await service.waitForStatus(id, 'deferred');

  writeFileSync(FULL, '');
  const refused = await waitFor(() => post(service).then((one) => one.status === 503 && one), {
    what: 'emails to be refused',
    everyMs: 200,
  });
  assert.match(refused.body.error.message, /Nothing was accepted: the disk is nearly full/);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  await waitFor(() => warnings(service).length > 0, { what: 'a warning' });
  await service.clock.advance({ minutes: 2 });
  await service.waitForStatus(id, 'delivered');

  const [{ pid }] = await service.sql('select pid from nodes');
  process.kill(pid, 'SIGKILL');
  const isReplaced = async () => (await service.sql('select from nodes where pid <> $1', [pid]))[0];
  await waitFor(isReplaced, { what: 'another worker' });
  const again = await waitFor(() => post(service).catch(() => null), { what: 'a response' });
  assert.equal(again.status, 503, 'the new worker knows it too');

  const open = () => service.sql('select type, subject from operator_conditions');
  await eventually(async () =>
    assert.deepEqual(await open(), [{ type: 'disk.low', subject: hostname() }]),
  );
  await service.counted(/^letterhaus_operator_conditions{type="disk.low"} 1$/m);
  await eventually(() => assert.equal(warnings(service).length, 1));

  rmSync(FULL);
  await waitFor(() => post(service).then(({ status }) => status === 202), { what: 'mail again' });
  await waitFor(async () => (await open()).length === 0, { what: 'the condition to end' });
});

function warnings(service: Service): string[] {
  return service.logs.split('\n').filter((line) => /"event":"disk.low".*"remedy"/.test(line));
}

async function isRefused(service: Service, why: RegExp): Promise<void> {
  const response = await waitFor(() => post(service).then((one) => one.status === 503 && one), {
    what: 'emails to be refused',
    everyMs: 200,
  });
  assert.match(response.body.error.message, why);
}

async function isAccepted(service: Service): Promise<void> {
  const accepts = () => post(service).then(({ status }) => status === 202);
  await waitFor(accepts, { what: 'mail again', everyMs: 200 });
}

test('the disk is also checked for a local database that DATABASE_URL names', async () => {
  const service = shared;
  await isAccepted(service);
  writeFileSync(FULL, '');
  await isRefused(service, /Nothing was accepted: the disk is nearly full/);
  rmSync(FULL);
  await isAccepted(service);
});

test('a database at its size limit accepts no more mail and settles what is under way', async () => {
  const service = shared;
  const id = await service.send({ to: 'deferred@simulator.test' });
  await service.waitForStatus(id, 'deferred');
  await service.sql(
    `create table filler (bytes text storage external);
     insert into filler select repeat('x', 1000000) from generate_series(1, 70)`,
  );
  await isRefused(service, /Nothing was accepted: the database has reached its largest size/);
  await service.clock.advance({ minutes: 2 });
  await service.waitForStatus(id, 'delivered');
  await service.sql('drop table filler');
  await isAccepted(service);
});

test('when PostgreSQL reports a full disk, mail is refused and settling continues', async () => {
  const service = shared;
  const id = await service.send({ to: 'deferred@simulator.test' });
  await service.waitForStatus(id, 'deferred');
  await disk.fill();
  await isRefused(service, /Nothing was accepted: the disk of the database is full/);
  await service.clock.advance({ minutes: 2 });
  await service.waitForStatus(id, 'delivered');
  await disk.empty();
  await isAccepted(service);
});
