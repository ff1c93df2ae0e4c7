/** TLS connections have the limits of all others; test/api/https.test.ts shows the rest. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { test } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { stubHttp, type StubHttp } from '../../test/support/http.ts';
import { waitFor } from '../../test/support/wait.ts';
import { makeSelfSigned } from '../net/tls/self-signed.ts';
import type { AppOptions } from './app.ts';

const validity = { fromMs: Date.now() - 60_000, untilMs: Date.now() + 3_600_000 };
const made = makeSelfSigned('api.test', validity);
const PEMS = { cert: Buffer.from(made.certificate), key: Buffer.from(made.privateKey) };
const SLOW = { headersMs: 60_000, requestMs: 60_000, silenceMs: 60_000, closeMs: 100 };

const stubHttps = (options: AppOptions): Promise<StubHttp> =>
  stubHttp({ services: { certificate: { pems: () => PEMS } }, ...options });

async function open(http: StubHttp): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port: http.port, rejectUnauthorized: false });
  await once(
    socket.on('error', () => {}),
    'secureConnect',
  );
  return socket;
}

async function askOn(socket: TLSSocket, http: StubHttp): Promise<string> {
  socket.write(
    `GET /v1/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n\r\n`,
  );
  const [answer] = await once(socket, 'data');
  return String(answer);
}

test('an unfinished TLS handshake is cut off', async () => {
  await using http = await stubHttps({ timeouts: { ...SLOW, headersMs: 300 } });
  const silent = connectTcp(http.port, '127.0.0.1').on('error', () => {});
  await once(silent.resume(), 'close');
});

test('over TLS, a client with a valid key keeps its connection during a flood', async () => {
  await using http = await stubHttps({ timeouts: SLOW, connections: { connections: 20 } });
  const known = await open(http);
  assert.match(await askOn(known, http), /^HTTP\/1\.1 200 /);
  let closed = 0;
  const flood = Array.from({ length: 100 }, () =>
    connectTcp(http.port, '127.0.0.1').on('error', () => {}),
  );
  for (const socket of flood) socket.resume().once('close', () => (closed += 1));
  await waitFor(() => closed === 81, { what: 'all but the newest to be closed' });
  assert.match(await askOn(known, http), /^HTTP\/1\.1 200 /);
  for (const socket of [known, ...flood]) socket.destroy();
  // None of them is remembered: as many again can connect.
  for (let round = 0; round < 25; round += 1) {
    const socket = await open(http);
    assert.match(await askOn(socket, http), /^HTTP\/1\.1 200 /);
    socket.destroy();
  }
});

test('over TLS, unread responses are dropped with their connection', async () => {
  const unreadBytes = { anonymous: 1_000_000_000, known: 1_000_000 };
  const connections = { readMs: 300, checkEveryMs: 50, unreadBytes };
  await using http = await stubHttps({ timeouts: SLOW, connections });
  const deaf = (await open(http)).pause();
  deaf.write('GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(90));
  const count = () =>
    new Promise<number>((resolve) => {
      http.app.server.getConnections((_error, connected) => resolve(connected));
    });
  await waitFor(async () => (await count()) === 0, { what: 'it to be closed' });
  deaf.destroy();
});
