/** HTTPS by the service itself: `LETTERHAUS_API_TLS_CERT` and `LETTERHAUS_API_TLS_KEY`. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { connect } from 'node:tls';
import { makeSelfSigned } from '../../src/net/tls/self-signed.ts';
import { startService } from '../support/service.ts';
import { DAY_MS, HOUR_MS } from '../../src/lib/units.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-https-'));
after(() => rmSync(folder, { recursive: true }));
const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };

function renew(name: string): void {
  const validity = { fromMs: Date.now() - 80 * DAY_MS, untilMs: Date.now() + HOUR_MS };
  const made = makeSelfSigned(name, validity);
  writeFileSync(files.cert, made.certificate);
  writeFileSync(files.key, made.privateKey);
}

renew('first.test');
const service = await startService({
  args: ['--workers', '1'],
  env: {
    LETTERHAUS_API_TLS_CERT: files.cert,
    LETTERHAUS_API_TLS_KEY: files.key,
    LETTERHAUS_PUBLIC_URL: 'https://mail.acme.test',
  },
});
after(() => service[Symbol.asyncDispose]());
const port = Number(new URL(service.url).port);

const EMAIL = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };

/** Over TLS, with the certificate verified. */
async function post(path: string, body: object) {
  const url = `https://127.0.0.1:${port}${path}`;
  const headers = {
    authorization: `Bearer ${service.testKey}`,
    'content-type': 'application/json',
  };
  const ca = readFileSync(files.cert);
  const call = request(url, { method: 'POST', headers, ca, servername: 'first.test' });
  call.end(JSON.stringify(body));
  const [response] = await once(call, 'response');
  return { status: response.statusCode, body: JSON.parse(await text(response)) };
}

test('the API is served over TLS with the certificate of the operator', async () => {
  assert.match(service.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const { status, body } = await post('/v1/emails', EMAIL);
  assert.equal(status, 202);
  assert.match(body.id, /^[0-9a-f-]{36}$/);
});

test('the operator sees that the certificate ends within a day, and that it is not for the public name', async () => {
  const both = async () => {
    const open = await service.sql('select type, message from operator_conditions');
    return open.length === 2 ? open : null;
  };
  const open = await waitFor(both, { what: 'both conditions', timeoutMs: 60_000 });
  const said = (type: string) => open.find((one) => one.type === type)?.message ?? '';
  assert.match(said('certificate.expiring'), /of the API on \S+ ends on \S+, within two days/);
  assert.match(said('certificate.mismatch'), /is for first\.test, .* connect to mail\.acme\.test/);
});

test('the command line sends to the local service over TLS and trusts only its certificate', async () => {
  const send = ['send', '--key', service.testKey, '--from', EMAIL.from, '--to', EMAIL.to];
  const sent = await service.cliJson(...send, '--subject', 'Hi', '--text', 'Hi');
  assert.match(sent.id, /^[0-9a-f-]{36}$/);
  const elsewhere = ['--url', service.url, '--subject', 'Hi', '--text', 'Hi'];
  const { code, stderr } = await service.cli(...send, ...elsewhere);
  assert.equal(code, 1);
  assert.match(stderr, /No response from the service/);
});

test('clear text on the TLS port gets an error and is closed', async () => {
  const socket = connectTcp(port, '127.0.0.1');
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  const response = await text(socket);
  assert.match(response, /^HTTP\/1\.1 400 /);
  assert.match(response, /This port serves HTTPS/);
});

test('old versions of TLS are refused', async () => {
  const socket = connect({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  });
  const [error] = await once(socket, 'error');
  assert.match(String(error.code), /VERSION|PROTOCOL|ALERT/);
});

test('a renewed certificate is used for the next connection, an invalid one is not', async () => {
  const shown = async (): Promise<unknown> => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    const { subject } = socket.getPeerCertificate();
    socket.destroy();
    return subject.CN;
  };
  assert.equal(await shown(), 'first.test');
  renew('second.test');
  const isRenewed = async () => (await shown()) === 'second.test';
  await waitFor(isRenewed, { what: 'the new certificate', timeoutMs: 60_000 });
  writeFileSync(files.cert, 'broken');
  const isLogged = async () => {
    assert.equal(await shown(), 'second.test');
    return service.logs.includes('the certificate of the API cannot be read');
  };
  await waitFor(isLogged, { what: 'the log to say so', timeoutMs: 60_000 });
});
