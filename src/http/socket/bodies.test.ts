/** Limits on bodies that are in memory at once; test/api/http-attacks.test.ts shows them against strangers. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect, Socket } from 'node:net';
import { test } from 'node:test';
import { stubHttp, type StubHttp } from '../../../test/support/http.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { markAdminSocket } from './local-operator.ts';
import { createBodyAccounting, type BodyAccount } from './bodies.ts';
import { MIB } from '../../lib/units.ts';

const EMAIL = { from: 'a@acme.com', to: 'jo@mail.org', subject: 'Hi', html: '<p>Hi</p>' };

/** Returns the account that the hook opens for the body of a request; null when it refuses the request. */
function accountOf(
  hook: ReturnType<typeof createBodyAccounting>,
  { socket, caller }: { socket: Socket; caller: { projectId: string } | null },
): BodyAccount | null {
  const headers = { 'content-length': '100' };
  const of = { headers, method: 'POST', ip: '127.0.0.1', caller, raw: { socket } };
  const request = Object.assign(Object.create(null), of, { bodyAccount: null });
  let refusal: Error | undefined;
  hook.call(Object(null), request, Object({ raw: new EventEmitter() }), (error?: Error) => {
    refusal = error;
  });
  return refusal === undefined ? request.bodyAccount : null;
}

test('a command on this machine has space for its body while others use up all of theirs', () => {
  const [stranger, command] = [new Socket(), new Socket()];
  markAdminSocket(command);
  for (const caller of [{ projectId: 'shop' }, null]) {
    const hook = createBodyAccounting();
    const account = accountOf(hook, { socket: stranger, caller });
    let piece = 64 * MIB;
    while (piece >= 1) if (account?.take(piece) !== true) piece /= 2;
    assert.equal(accountOf(hook, { socket: stranger, caller }), null);
    assert.equal(accountOf(hook, { socket: command, caller })?.take(40 * MIB), true);
    assert.equal(accountOf(hook, { socket: command, caller })?.take(40 * MIB), false);
  }
});

/** Sends a head and a part of its body; `received` has the bytes that come back. */
function begin(
  http: StubHttp,
  { head, key, body = '' }: { head: string; key: string; body?: string },
): Socket & { received: string } {
  const socket = Object.assign(connect(http.port, '127.0.0.1'), { received: '' });
  socket.setEncoding('latin1').on('data', (text: string) => (socket.received += text));
  const lines = [
    'POST /v1/emails HTTP/1.1',
    'Host: here',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    head,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return socket;
}

/** Sends all but one byte of a body of 40 MB, which leaves 8 MB for the project and half of the budget for others. */
async function fill(http: StubHttp, key: string): Promise<Socket> {
  const body = ' '.repeat(40 * MIB);
  const holding = begin(http, { head: `Content-Length: ${40 * MIB + 1}`, key, body });
  const headers = { authorization: `Bearer ${key}` };
  const isFull = async () =>
    (await http.post('/v1/emails', 'x'.repeat(9 * MIB), headers)).status === 503;
  await waitFor(isFull, { what: 'the share of the project to be used up' });
  return holding;
}

test('bodies beyond the share of a project get 503 before they are read, until others have ended', async () => {
  await using http = await stubHttp();
  const { full } = http.keys;
  const holding = await fill(http, full);
  const refused = begin(http, { head: `Content-Length: ${20 * MIB}`, key: full });
  await waitFor(() => refused.received.endsWith('}}'), { what: 'an answer without the body' });
  assert.match(refused.received, /^HTTP\/1\.1 503 /);
  assert.match(refused.received, /retry-after: \d+/i);
  assert.match(refused.received, /Nothing was accepted: too many large requests are in progress/);
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202, 'small ones pass');

  const large = { ...EMAIL, html: 'x'.repeat(20 * MIB) };
  const other = { authorization: `Bearer ${http.keys.live}` };
  assert.equal((await http.post('/v1/emails', large, other)).status, 202, 'and other projects');
  for (const socket of [holding, refused]) socket.destroy();
  await waitFor(async () => (await http.post('/v1/emails', large)).status !== 503, {
    what: 'room again',
  });
});

test('announced bodies that are not sent use no memory', async () => {
  await using http = await stubHttp();
  const head = `Content-Length: ${45 * MIB}`;
  const silent = Array.from({ length: 10 }, () => begin(http, { head, key: http.keys.full }));
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  const large = { ...EMAIL, html: 'x'.repeat(20 * MIB) };
  assert.equal((await http.post('/v1/emails', large)).status, 202);
  for (const socket of silent) socket.destroy();
});

test('a body in chunks counts as it comes', async () => {
  await using http = await stubHttp();
  const { full } = http.keys;
  const holding = await fill(http, full);
  const chunked = begin(http, { head: 'Transfer-Encoding: chunked', key: full });
  const chunk = Buffer.alloc(MIB, ' ');
  for (let sent = 0; sent < 10; sent += 1) {
    chunked.write(`${MIB.toString(16)}\r\n`);
    chunked.write(chunk);
    chunked.write('\r\n');
  }
  await waitFor(() => chunked.received.endsWith('}}'), { what: 'an answer' });
  assert.match(chunked.received, /^HTTP\/1\.1 503 /);
  for (const socket of [holding, chunked]) socket.destroy();

  const whole = begin(http, { head: 'Transfer-Encoding: chunked', key: full });
  const json = JSON.stringify(EMAIL);
  whole.write(`${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`);
  await waitFor(() => whole.received.includes('HTTP/1.1 202 '), {
    what: 'a chunked email to pass',
  });
  whole.end();
  await once(whole, 'close');
});

test('a body in chunks of one byte is refused and its connection closed, because each costs as much as a large one', async () => {
  await using http = await stubHttp();
  const socket = begin(http, { head: 'Transfer-Encoding: chunked', key: http.keys.full });
  let isClosed = false;
  socket.on('error', () => {}).once('close', () => (isClosed = true));
  const chunks = Buffer.from('1\r\n \r\n'.repeat(10_000));
  const write = () => {
    while (!socket.destroyed && socket.write(chunks));
  };
  socket.on('drain', write);
  write();
  await waitFor(() => isClosed, { what: 'the connection to be closed', timeoutMs: 60_000 });
  assert.match(socket.received, /^HTTP\/1\.1 400 /);
  assert.match(socket.received, /in pieces of a few bytes; send larger chunks/);
});

test('requests with a response no longer count', async () => {
  await using http = await stubHttp();
  const body = JSON.stringify({ ...EMAIL, html: 'x'.repeat(MIB) });
  for (let sent = 0; sent < 100; sent += 1) {
    assert.notEqual((await http.post('/v1/emails', body)).status, 503);
  }
});

const QUICK = { headersMs: 200, requestMs: 300, silenceMs: 60_000, closeMs: 100 };

async function beginUpload(http: StubHttp, path = '/v1/suppressions/import'): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: http.port });
  await once(socket, 'connect');
  socket
    .setEncoding('utf8')
    .write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
        'Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n' +
        '9\r\naddress\r\n\r\n',
    );
  return socket;
}

async function answerOn(socket: Socket): Promise<string> {
  let response = '';
  for await (const piece of socket) response += piece as string;
  return response;
}

test('an upload may take longer than any other request', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const upload = await beginUpload(http);
  // A request that began later than the upload is out of time, and the upload began before it.
  for (let round = 1; round <= 3; round += 1) {
    const late = await http.raw(
      `POST /v1/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{',
    );
    assert.match(late, /^HTTP\/1\.1 408 /);
  }
  upload.write('0\r\n\r\n');
  const response = await answerOn(upload);
  assert.match(response, /^HTTP\/1\.1 200 /);
  assert.match(response, /"added":0/);
});

test('a stalled upload gets an error', async () => {
  await using http = await stubHttp({ timeouts: { ...QUICK, silenceMs: 50 } });
  const upload = await beginUpload(http);
  const response = await answerOn(upload);
  assert.match(response, /^HTTP\/1\.1 408 /);
  assert.match(response, /0 addresses were added before/);
});

test('an upload that arrives byte by byte gets an error', async () => {
  await using http = await stubHttp({ timeouts: { ...QUICK, silenceMs: 200 } });
  const upload = await beginUpload(http);
  const drip = setInterval(() => upload.write('1\r\na\r\n'), 20);
  const response = await answerOn(upload);
  clearInterval(drip);
  assert.match(response, /^HTTP\/1\.1 408 /);
  assert.match(response, /0 addresses were added before/);
});

test('two uploads of a project run at a time; further ones are refused unread', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const uploads = [await beginUpload(http), await beginUpload(http)];
  const refused = async () => {
    const response = await http.raw(
      `POST /v1/suppressions/import HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n` +
        `Authorization: Bearer ${http.keys.full}\r\nContent-Length: 9\r\nConnection: close\r\n\r\naddress\r\n`,
    );
    return response.startsWith('HTTP/1.1 503 ');
  };
  // Both have begun as soon as a third is refused.
  while (!(await refused())) await new Promise(setImmediate);
  for (const upload of uploads) upload.end('0\r\n\r\n');
  for (const upload of uploads) assert.match(await answerOn(upload), /^HTTP\/1\.1 200 /);
  assert.equal(await refused(), false);
});
