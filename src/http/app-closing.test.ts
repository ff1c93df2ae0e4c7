/** Requests and connections at a stop. test/journey/stop.test.ts stops a whole service. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { SENT, stubHttp } from '../../test/support/http.ts';
import { waitFor } from '../../test/support/wait.ts';

const TIMEOUTS = { headersMs: 60_000, requestMs: 60_000, silenceMs: 60_000, closeMs: 200 };
const LIMIT = { limit: 1, remaining: 0, resetS: 1, windowS: 1 };
const EMAIL = { from: 'a@acme.com', to: 'jo@mail.org', subject: 'Hi', text: 'Hi' };

/** Opens a connection and sends these bytes; `closed` resolves when the service ends it. */
async function connection(port: number, bytes: string) {
  const socket = connect({ host: '127.0.0.1', port }).on('error', () => {});
  const closed = new Promise((resolve) => socket.resume().once('close', resolve));
  await once(socket, 'connect');
  if (bytes !== '') await new Promise((resolve) => socket.write(bytes, resolve));
  return { closed };
}

test('idle connections do not delay a stop', async () => {
  await using http = await stubHttp({ timeouts: { ...TIMEOUTS, closeMs: 60_000 } });
  const silent = await connection(http.port, '');
  await fetch(`${http.url}/healthz`);
  await http.app.close();
  await silent.closed;
});

test('an unfinished request is cut off after the grace period', async () => {
  await using http = await stubHttp({ timeouts: TIMEOUTS });
  const endless = await connection(http.port, 'POST /v1/emails HTTP/1.1\r\nHost: x\r\nX: ');
  await fetch(`${http.url}/healthz`);
  await http.app.close();
  await endless.closed;
});

test('a request under way gets its response before the service stops', async () => {
  const { promise: stored, resolve } = Promise.withResolvers<void>();
  let isWorking = false;
  const accept = async () => {
    isWorking = true;
    await stored;
    return { kind: 'accepted' as const, body: JSON.stringify(SENT), limit: LIMIT };
  };
  const timeouts = { ...TIMEOUTS, closeMs: 60_000 };
  await using http = await stubHttp({ services: { accept }, timeouts });
  const answer = http.post('/v1/emails', EMAIL);
  await waitFor(() => isWorking, { what: 'the request to arrive' });
  const closed = http.app.close();
  await waitFor(() => !http.app.server.listening, { what: 'the service to begin to close' });
  resolve();
  const { status, headers } = await answer;
  assert.equal(status, 202);
  // An open connection would let the client send its next request, and the service would wait for it.
  assert.equal(headers.get('connection'), 'close');
  await closed;
});
