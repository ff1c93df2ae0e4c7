/**
 * `GET /readyz` reports each state in which emails are refused: at once, with a code for programs. The states are
 * real ones: a frozen, killed and read-only database, a full disk, a database at its limit, a wrong clock, a newer
 * schema, a stop.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { HOUR_MS, makeClocks } from '../chaos/faults/clocks.ts';
import { addFullDisk } from '../support/full-disk.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { preload } from '../support/preload.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const FULL = join(tmpdir(), `letterhaus-test-full-${process.pid}`);
/** While the file is there, the supervisor sees a disk with 100 MB left. */
const FULL_DISK = `
  const [fs, { existsSync }, { syncBuiltinESMExports }] = await Promise.all(
    [import('node:fs/promises'), import('node:fs'), import('node:module')]);
  const { statfs } = fs.default;
  fs.default.statfs = async (path) => ({
    ...(await statfs(path)), ...(existsSync('${FULL}') && { bsize: 4096, bavail: 25_600 }),
  });
  syncBuiltinESMExports();`;

const clocks = makeClocks();
const database = await proxiedDatabase();
const { proxy } = database;
const disk = await addFullDisk((statements) => database.sql(statements));
const imports = [clocks.envOf('a').NODE_OPTIONS, preload('main.ts', FULL_DISK).NODE_OPTIONS];
const service = await startService({
  database,
  env: {
    NODE_OPTIONS: imports.join(' '),
    LETTERHAUS_LIMIT_SENDING: '100000/60',
    LETTERHAUS_DATABASE_MAX_MB: '64',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
  clocks[Symbol.dispose]();
  rmSync(FULL, { force: true });
});

const ready = () => service.request('GET', '/readyz', { key: null });
const codesOf = ({ body }: ApiResponse): string[] =>
  (body.reasons ?? []).map((one: { code: string }) => one.code);

function post(): Promise<ApiResponse> {
  const to = 'delivered@simulator.test';
  const body = { from: 'hello@acme.test', to, subject: 'Hello', text: 'Hello' };
  return service.request('POST', '/v1/emails', { body });
}

/** The response of /readyz once it has these reasons. */
async function isUnready(...codes: readonly string[]): Promise<ApiResponse> {
  const response = await waitFor(
    () => ready().then((one) => String(codesOf(one)) === String(codes) && one),
    { what: `/readyz to say ${codes.join()}` },
  );
  assert.equal(response.status, 503);
  assert.equal(response.body.status, 'unready');
  assert.equal(response.body.error.code, 'service_unavailable');
  assert.ok(Number(response.headers.get('retry-after')) > 0);
  const health = await service.request('GET', '/healthz', { key: null });
  assert.deepEqual([health.status, health.body], [200, { status: 'ok' }], 'the event loop turns');
  return response;
}

async function isReady(): Promise<void> {
  const isOk = () => ready().then(({ status }) => status === 200);
  await waitFor(isOk, { what: 'the service to be ready' });
  const accepts = () => post().then(({ status }) => status === 202);
  await waitFor(accepts, { what: 'mail to be accepted again' });
}

function messageOf(response: ApiResponse, code: string): string {
  return response.body.reasons.find((one: { code: string }) => one.code === code).message;
}

test('while the database is frozen, readiness responds at once that it is unavailable', async () => {
  await isReady();
  proxy.stall();
  // All of these responses come while the database gives no answer.
  const response = await isUnready('database_unavailable');
  assert.equal(
    messageOf(response, 'database_unavailable'),
    'The database does not answer; check that it runs and that this machine reaches it.',
  );
  await proxy.heal();
  await isReady();
});

test('while the database is unavailable, sends get 503 and so does readiness', async () => {
  await proxy.refuse();
  assert.equal((await post()).status, 503);
  await isUnready('database_unavailable');
  await proxy.heal();
  await isReady();
});

test('a read-only database, as a demoted primary is one, makes the node unready with that reason', async () => {
  const [{ name }] = await service.sql('select current_database() as name');
  const others = 'select pid from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()';
  const setReadOnly = async (value: 'on' | 'off') => {
    await service.sql(`alter database ${name} set default_transaction_read_only = ${value}`);
    await service.sql(`select pg_terminate_backend(pid) from (${others}) as others`, [name]);
  };
  await setReadOnly('on');
  const response = await isUnready('database_read_only');
  assert.match(messageOf(response, 'database_read_only'), /DATABASE_URL/);
  assert.equal((await post()).status, 503);
  await setReadOnly('off');
  await isReady();
});

test('a nearly full disk and a database at its limit are two reasons', async () => {
  await service.sql(
    `create table filler (bytes text storage external);
     insert into filler select repeat('x', 1000000) from generate_series(1, 70)`,
  );
  const response = await isUnready('database_full');
  assert.match(messageOf(response, 'database_full'), /LETTERHAUS_DATABASE_MAX_MB/);
  assert.match((await post()).body.error.message, /largest size/);
  writeFileSync(FULL, '');
  await isUnready('database_full', 'disk_full');
  await service.sql('drop table filler');
  await isUnready('disk_full');
  assert.match((await post()).body.error.message, /the disk is nearly full/);
  rmSync(FULL);
  await isReady();
});

test('when PostgreSQL finds the disk full, the node is unready until it has room again', async () => {
  await disk.fill();
  const isRefused = () => post().then(({ status }) => status === 503);
  await waitFor(isRefused, { what: 'emails to be refused' });
  await isUnready('disk_full');
  await disk.empty();
  await isReady();
});

test('a wrong clock is a reason, for as long as it is wrong', async () => {
  clocks.set('a', 3 * HOUR_MS);
  const response = await isUnready('clock');
  assert.match(messageOf(response, 'clock'), /^The clock of this machine is 3 hours ahead .*NTP/);
  assert.equal((await post()).status, 503);
  clocks.set('a', 0);
  await isReady();
});

test('a node that ends for a newer schema responds to connected clients with the reason', async () => {
  const { hostname, port } = new URL(service.url);
  const socket = connect({ host: hostname, port: Number(port) });
  await once(socket, 'connect');
  // A request that has begun: its connection stays open while the service stops.
  socket.write('GET /readyz HTTP/1.1\r\nHost: x\r\n');
  await service.sql('update installation set schema_required = 9002');
  const isClosed = (): Promise<boolean> =>
    fetch(service.url).then(
      () => false,
      () => true,
    );
  await waitFor(isClosed, { what: 'no more requests to be taken' });
  socket.write('\r\n');
  const response = await text(socket);
  assert.match(response, /^HTTP\/1\.1 503 /);
  const { reasons } = JSON.parse(response.slice(response.indexOf('\r\n\r\n')));
  assert.deepEqual(
    reasons.map(({ code }: { code: string }) => code),
    ['schema', 'shutting_down'],
  );
});
