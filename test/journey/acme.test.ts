/** Certificates that the service orders by itself, from a real ACME server, for the API, tracked links and SMTP. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { connect } from 'node:tls';
import { choosePort, portTurns } from '../../src/net/choose-port.ts';
import { readChain } from '../../src/net/tls/chain.ts';
import { startAcmeServer } from '../support/acme-server.ts';
import { migratedDatabase } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

const turns = portTurns(process.pid);
async function freePort(): Promise<number> {
  const chosen = await choosePort({ host: '127.0.0.1', port: 0, isPortConfigured: true }, turns);
  assert.ok('port' in chosen);
  return chosen.port;
}

const challengePort = await freePort();
const acme = await startAcmeServer({ challengePort });
after(() => acme[Symbol.asyncDispose]());

const ENV = {
  LETTERHAUS_ACME: 'on',
  LETTERHAUS_ACME_DIRECTORY_URL: acme.directoryUrl,
  LETTERHAUS_ACME_EMAIL: 'ops@acme.test',
  LETTERHAUS_ACME_HTTP_PORT: `127.0.0.1:${challengePort}`,
  LETTERHAUS_PUBLIC_URL: 'https://api.acme.test',
  LETTERHAUS_HOSTNAME: 'mail.acme.test',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
  LETTERHAUS_SUBMISSION_PORTS: '0/tls',
  LETTERHAUS_LOG: 'info',
};
const TIMEOUT_MS = 120_000;

/** Opens a TLS connection as a client that trusts only the authority. Resolves with whether it verifies the name. */
async function verifies(port: number, servername: string): Promise<boolean> {
  const socket = connect({
    host: '127.0.0.1',
    port,
    servername,
    ca: acme.root,
    rejectUnauthorized: false,
  });
  await once(socket, 'secureConnect');
  const { authorized } = socket;
  socket.destroy();
  return authorized;
}

async function waitUntilVerified(port: number, name: string): Promise<void> {
  const what = `a certificate for ${name}`;
  await waitFor(() => verifies(port, name), { what, timeoutMs: TIMEOUT_MS, everyMs: 700 });
}

/** Requests a path of the challenge port. */
async function get(
  path: string,
  options: { method?: string; headers?: Record<string, string> } = {},
) {
  const call = request({ host: '127.0.0.1', port: challengePort, path, ...options });
  call.end();
  const [response] = await once(call, 'response');
  return {
    status: response.statusCode,
    location: response.headers.location,
    body: await text(response),
  };
}

test('the service orders certificates for its names, renews them without a restart, and keeps them over one', async () => {
  await using service = await startService({
    env: {
      ...ENV,
      LETTERHAUS_TRACKING_URL: 'https://links.acme.test',
      LETTERHAUS_METRICS_PORT: '0',
    },
  });
  const apiPort = Number(new URL(service.url).port);
  const mailPort = service.readyLine.submission_ports?.[0] ?? 0;
  const metricsUrl = service.readyLine.metrics_url ?? '';
  assert.match(service.url, /^https:/);
  await service.logged(/api\.acme\.test has a self-signed certificate until the authority/);
  for (const [port, name] of [
    [apiPort, 'api.acme.test'],
    [apiPort, 'links.acme.test'],
    [mailPort, 'mail.acme.test'],
  ] as const) {
    await waitUntilVerified(port, name);
  }
  assert.deepEqual(acme.accounts[0]?.contact, ['mailto:ops@acme.test']);
  assert.equal(await verifies(apiPort, 'mail.acme.test'), false, 'each name has its own');
  const file = join(service.dataDir, 'secrets', 'acme-api.acme.test.pem');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const rows = await service.sql('select * from acme_certificates');
  assert.ok(!JSON.stringify(rows).includes('PRIVATE KEY'), 'stored keys are sealed');
  const challenges = async () => (await service.sql('select from acme_challenges')).length === 0;
  await waitFor(challenges, { what: 'the challenges to be removed', timeoutMs: TIMEOUT_MS });
  const gauge = /^letterhaus_certificate_expiry_timestamp_seconds{of="tracking"} \d/m;
  await eventually(async () => assert.match(await (await fetch(metricsUrl)).text(), gauge), {
    timeoutMs: TIMEOUT_MS,
  });

  // The port for challenges serves nothing else.
  const there = await get('/v1/emails?a=b', { headers: { host: 'links.acme.test' } });
  assert.deepEqual([there.status, there.location], [301, 'https://links.acme.test/v1/emails?a=b']);
  const foreign = await get('/', { headers: { host: 'evil.test' } });
  assert.equal(foreign.location, 'https://api.acme.test/');
  const headers = { host: 'api.acme.test', authorization: 'Bearer x' };
  assert.equal((await get('/v1/emails', { headers })).status, 403);
  assert.equal((await get('/v1/emails', { method: 'POST' })).status, 403);
  assert.equal((await get('/.well-known/acme-challenge/unknown')).status, 404);

  // A third of its life is left after 60 of 90 days.
  const before = readFileSync(file, 'utf8');
  const socket = connect({ host: '127.0.0.1', port: mailPort, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  await service.sql(`update clock set skew = skew + interval '59 days'`);
  const [{ due }] = await service.sql(
    'select min(due_at) > app_now() as due from acme_certificates',
  );
  assert.equal(due, true, 'not before that');
  await service.sql(`update clock set skew = skew + interval '2 days'`);
  const isRenewed = () => readFileSync(file, 'utf8') !== before;
  await waitFor(isRenewed, { what: 'the renewal', timeoutMs: TIMEOUT_MS });
  const serial = () => readChain(readFileSync(file, 'utf8'))[0].serialNumber;
  assert.notEqual(serial(), readChain(before)[0].serialNumber);
  await eventually(async () => assert.ok(await verifies(apiPort, 'api.acme.test')), {
    timeoutMs: TIMEOUT_MS,
  });
  assert.equal(socket.destroyed, false, 'open connections stay');
  socket.destroy();

  // The files are written again from the database, as on another node. Before the stop all names are
  // renewed: an order that it interrupts is placed again.
  const open = 'select from acme_certificates where due_at <= app_now() or failures > 0';
  const isNothingOpen = async () => (await service.sql(open)).length === 0;
  await waitFor(isNothingOpen, { what: 'the renewal of all names', timeoutMs: TIMEOUT_MS });
  const renewed = serial();
  const { length } = acme.orders;
  await service.stop();
  rmSync(file);
  await service.restart();
  assert.ok(existsSync(file));
  assert.equal(serial(), renewed);
  assert.equal(acme.orders.length, length, 'nothing is ordered again');
});

test('an order that fails is reported with what to do, tried again later, and the certificate in use stays', async () => {
  // The authority connects to another port than the one that answers.
  const env = { ...ENV, LETTERHAUS_ACME_HTTP_PORT: `127.0.0.1:${await freePort()}` };
  await using service = await startService({ env: { ...env, LETTERHAUS_SUBMISSION_PORTS: 'off' } });
  const apiPort = Number(new URL(service.url).port);
  const openConditions = () =>
    service.sql('select type, subject, message, remedy from operator_conditions');
  const isOpen = async () => (await openConditions()).length === 1;
  await waitFor(isOpen, { what: 'the condition', timeoutMs: TIMEOUT_MS });
  const [condition] = await openConditions();
  assert.equal(`${condition.type} ${condition.subject}`, 'certificate.not_issued api.acme.test');
  assert.match(condition.message, /No certificate for api\.acme\.test was issued: .*ECONNREFUSED/);
  assert.match(condition.remedy, /Let everybody reach port 80 of api\.acme\.test/);
  const wait = async () => {
    const [row] = await service.sql(
      'select failures, extract(epoch from due_at - app_now())::int8 as "waitS" from acme_certificates',
    );
    return row as { failures: number; waitS: number };
  };
  const first = await wait();
  assert.equal(first.failures, 1);
  assert.ok(first.waitS > 14 * 60 && first.waitS <= 15 * 60, String(first.waitS));
  const { validations } = acme;
  await service.kill9();
  await service.restart();
  const isReported = () => service.logs.includes('certificate.not_issued');
  await waitFor(isReported, { what: 'the report after the restart', timeoutMs: TIMEOUT_MS });
  assert.equal(acme.validations, validations, 'a restart does not validate again');

  acme.fail('/order', {
    type: 'rateLimited',
    status: 429,
    retryAfterS: 7_200,
    detail: 'slow down',
  });
  await service.sql('update acme_certificates set due_at = app_now()');
  const isLimited = async () => (await wait()).failures === 2 && (await wait()).waitS > 7_000;
  await waitFor(isLimited, { what: 'the wait that the authority asks for', timeoutMs: TIMEOUT_MS });

  service.env['LETTERHAUS_ACME_HTTP_PORT'] = `127.0.0.1:${challengePort}`;
  service.env['PORT'] = String(apiPort);
  await service.restart();
  await service.sql('update acme_certificates set due_at = app_now()');
  await waitUntilVerified(apiPort, 'api.acme.test');
  const isQuiet = async () => (await openConditions()).length === 0;
  await waitFor(isQuiet, { what: 'the condition to end', timeoutMs: TIMEOUT_MS });
});

test('a node that is killed after it has finalized an order: another one stores its certificate', async () => {
  await using database = await migratedDatabase();
  const env = {
    ...ENV,
    LETTERHAUS_SUBMISSION_PORTS: 'off',
    LETTERHAUS_SECRET_KEY: 'k'.repeat(32),
  };
  acme.fail('/finalize', 'later');
  const { validations } = acme;
  const { length } = acme.orders;
  await using first = await startService({ database, env });
  const isFinalized = () =>
    acme.orders.at(-1)?.status === 'processing' && acme.orders.length > length;
  await waitFor(isFinalized, { what: 'the order', timeoutMs: TIMEOUT_MS });
  await first.kill9();
  acme.release();
  // Two nodes start at once. Both answer challenges; one of them continues the order.
  const secondPort = await freePort();
  await using nodes = new AsyncDisposableStack();
  const [second, third] = await Promise.all([
    startService({ database, env }).then((node) => nodes.use(node)),
    startService({
      database,
      env: { ...env, LETTERHAUS_ACME_HTTP_PORT: `127.0.0.1:${secondPort}` },
    }).then((node) => nodes.use(node)),
  ]);
  await second.sql('update acme_certificates set due_at = app_now()');
  await waitUntilVerified(Number(new URL(second.url).port), 'api.acme.test');
  await waitUntilVerified(Number(new URL(third.url).port), 'api.acme.test');
  assert.equal(acme.orders.length, length + 1, 'one order');
  assert.equal(acme.validations, validations + 1, 'one validation');
});
