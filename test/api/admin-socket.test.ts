/** The socket by which the operator of the machine uses the API without a key (src/http/socket/admin-requests.ts). */
import assert from 'node:assert/strict';
import { readFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { assertFailure, EMAIL } from '../support/api.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

// A path too long for the address of a socket.
const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
const dataDir = join(folder, 'long'.repeat(25));
const service = await startService({ dataDir, args: ['--workers', '2'] });
after(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const socketPath = (): string =>
  JSON.parse(readFileSync(join(dataDir, 'running.json'), 'utf8')).adminSocket;

type Sent = { body?: object; headers?: Record<string, string> };

async function ask(method: string, path: string, { body, headers = {} }: Sent = {}) {
  const asked = request({ socketPath: socketPath(), method, path, headers });
  asked.setHeader('content-type', 'application/json');
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  const { promise, resolve, reject } =
    Promise.withResolvers<[status: number | undefined, body: string]>();
  asked.on('error', reject);
  asked.on('response', (response) => {
    text(response).then((content) => resolve([response.statusCode, content]), reject);
  });
  const [status, received] = await promise;
  return { status, body: JSON.parse(received) };
}

const TEST = { 'letterhaus-environment': 'test' };

test('the operator of the machine sends, reads and changes without a key, and the audit log has it', async () => {
  const sent = await ask('POST', '/v1/emails', { body: EMAIL, headers: TEST });
  assert.equal(sent.status, 202);
  await service.waitForStatus(sent.body.id, 'delivered');
  const key = await ask('POST', '/v1/api-keys', { body: { name: 'For the shop' }, headers: TEST });
  assert.match(key.body.key, /^lh_test_/);
  const { body } = await ask('GET', '/v1/audit_log');
  const entries = body.data.map(
    ({ action, actor, target_id, network }: Record<string, unknown>) => {
      return [action, actor, target_id, network];
    },
  );
  const command = { type: 'command', id: null, name: null, member_name: null };
  assert.deepEqual(entries, [
    ['createApiKey', command, key.body.id, null],
    ['sendEmail', command, sent.body.id, null],
  ]);
  // The key with which it was accepted is removed.
  await eventually(async () => {
    const { body: keys } = await ask('GET', '/v1/api-keys', { headers: TEST });
    const names = keys.data.map(({ name }: { name: string }) => name);
    assert.deepEqual(names, ['For the shop', 'First test key']);
  });
});

test('only the user of the service can enter the folder of the socket, wherever it is', () => {
  const path = socketPath();
  assert.notEqual(dirname(dirname(path)), dataDir);
  assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('by TCP nothing takes the place of a key', async () => {
  const headers = { ...TEST, host: 'localhost', 'letterhaus-project': 'Acme' };
  const refused = await service.request('GET', '/v1/emails', { key: null, headers });
  assertFailure(refused, 401, 'authentication_error');
});

test('a key on the socket is checked as anywhere', async () => {
  const authorization = `Bearer ${service.testKey}`;
  assert.equal((await ask('GET', '/v1/emails', { headers: { authorization } })).status, 200);
  const wrong = { authorization: 'Bearer lh_test_x', ...TEST };
  assert.equal((await ask('GET', '/v1/emails', { headers: wrong })).status, 401);
});

test('a project is chosen by its id or its name, or by the id of one of its objects', async () => {
  const { body: shop } = await ask('POST', '/v1/projects', { body: { name: 'Größe' } });
  const several = await ask('GET', '/v1/emails', { headers: TEST });
  assert.equal(several.status, 422);
  assert.match(
    several.body.error.message,
    /several projects; say which with --project \(Acme, Größe\)/,
  );
  const body = { url: 'https://shop.example/hook' };
  for (const project of [shop.id, encodeURIComponent('größe')]) {
    const headers = { ...TEST, 'letterhaus-project': project };
    const made = await ask('POST', '/v1/webhooks', { body, headers });
    assert.equal(made.status, 201);
    assert.equal((await ask('DELETE', `/v1/webhooks/${made.body.id}`)).status, 200);
    const again = await ask('GET', `/v1/webhooks/${made.body.id}`);
    assert.deepEqual([again.status, again.body.error.code], [404, 'not_found']);
  }
  const foreign = await ask('POST', '/v1/webhooks', {
    body,
    headers: { ...TEST, 'letterhaus-project': 'Acme' },
  });
  const elsewhere = { 'letterhaus-project': shop.id };
  const path = `/v1/webhooks/${foreign.body.id}`;
  assert.equal((await ask('GET', path, { headers: elsewhere })).status, 404);
  assert.equal((await ask('GET', path)).body.id, foreign.body.id);
});

test('only a member in a session changes the account of a member', async () => {
  const { status, body } = await ask('POST', '/v1/session/password', { body: {} });
  assert.equal(status, 403);
  assert.match(body.error.message, /session of a member: sign in to the dashboard/);
});

test('the wire format of Resend takes a key on the socket, too, because it has no audit log', async () => {
  for (const path of ['/emails', '/suppressions', '/templates']) {
    assert.equal((await ask('POST', path, { body: {} })).status, 401, path);
  }
});

test('a service that was killed leaves its socket, and the next start takes its place', async () => {
  await service.killGroup9();
  assert.equal(statSync(socketPath()).isSocket(), true);
  await service.restart();
  assert.equal((await ask('GET', '/v1/projects')).status, 200);
});
