/**
 * Clients that keep connections open and do nothing with them, like slowhttptest: slow headers (slowloris), slow
 * bodies (R-U-Dead-Yet), slow readers, and floods. Real sockets, short time limits.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import pino from 'pino';
import { stubHttp, type StubHttp } from '../../../test/support/http.ts';
import { DEFAULT_LIMITS } from '../../core/limits.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import { CONNECTION_LIMITS, ClientConnections } from './client-connections.ts';
import type { HttpServices } from '../services.ts';
import { MIB } from '../../lib/units.ts';

const QUICK = { headersMs: 300, requestMs: 600, silenceMs: 300, closeMs: 100 };
const SLOW = { headersMs: 60_000, requestMs: 60_000, silenceMs: 60_000, closeMs: 100 };
const EMAIL = { from: 'a@acme.com', to: 'jo@mail.org', subject: 'Hi', html: '<p>Hi</p>' };
const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

type Client = { socket: Socket; received: string; isClosed: boolean };

function open(http: StubHttp, { bytes = '', from = '127.0.0.1' } = {}): Client {
  const socket = connect({ port: http.port, host: '127.0.0.1', localAddress: from });
  const client: Client = { socket, received: '', isClosed: false };
  socket.setEncoding('latin1').on('data', (text: string) => (client.received += text));
  socket.on('error', () => {}).once('close', () => (client.isClosed = true));
  if (bytes !== '') socket.write(bytes);
  return client;
}

const isConnected = ({ socket, isClosed }: Client) => isClosed || !socket.connecting;
const allClosed = (clients: readonly Client[]) => () => clients.every(({ isClosed }) => isClosed);
const openOf = (clients: readonly Client[]) => clients.filter(({ isClosed }) => !isClosed).length;

/** Keeps sending one byte every few milliseconds, until the other side closes. */
function drip({ socket }: Client, byte: string): void {
  const timer = setInterval(() => socket.write(byte), 20);
  socket.once('close', () => clearInterval(timer));
}

const head = (http: StubHttp, more: string) =>
  `POST /v1/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
  `Content-Type: application/json\r\n${more}\r\n`;

test('headers that arrive byte by byte are cut off, and other clients are served meanwhile', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const slow = Array.from({ length: 300 }, () =>
    open(http, { bytes: 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ' }),
  );
  for (const client of slow) drip(client, 'a');
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202);
  await waitFor(allClosed(slow), { what: 'all of them to be closed' });
  assert.ok(slow.every(({ received }) => received.startsWith('HTTP/1.1 408 ')));
});

test('bodies that arrive byte by byte are cut off, and other clients are served meanwhile', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const bytes = head(http, 'Content-Length: 100000\r\n');
  const slow = Array.from({ length: 300 }, () => open(http, { bytes }));
  for (const client of slow) drip(client, ' ');
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202);
  await waitFor(allClosed(slow), { what: 'all of them to be closed' });
  assert.ok(slow.every(({ received }) => received.startsWith('HTTP/1.1 408 ')));
});

test('a connection without a request is closed', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const silent = Array.from({ length: 50 }, () => open(http));
  await waitFor(allClosed(silent), { what: 'all of them to be closed' });
});

/** 20 MB of responses: more than any socket buffers. */
const ASKS_FOR_MUCH = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(90);

/** Opens connections that request much and read nothing. */
async function deafClients(http: StubHttp, count: number): Promise<Client[]> {
  const clients = Array.from({ length: count }, () => open(http, { bytes: ASKS_FOR_MUCH }));
  for (const { socket } of clients) socket.pause();
  await waitFor(() => clients.every(isConnected), { what: 'all to be connected' });
  return clients;
}

const destroyAll = (clients: readonly Client[]) =>
  clients.forEach(({ socket }) => socket.destroy());

test('unread responses are dropped with their connection, and other clients are served', async () => {
  const unreadBytes = { anonymous: 1_000 * MIB, known: MIB };
  const connections = { readMs: 300, checkEveryMs: 50, unreadBytes };
  await using http = await stubHttp({ timeouts: SLOW, connections });
  const deaf = await deafClients(http, 20);
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202);
  // A client that does not read does not notice the end of its connection.
  await waitFor(async () => (await countOf(http)) <= 1, { what: 'all of them to be closed' });
  destroyAll(deaf);
});

test('responses that are read too slowly are dropped', async () => {
  const unreadBytes = { anonymous: 1_000 * MIB, known: MIB };
  const connections = { readMs: 2_000, readBytesPerS: 100 * MIB, checkEveryMs: 50, unreadBytes };
  await using http = await stubHttp({ timeouts: SLOW, connections });
  const [slow] = await deafClients(http, 1);
  assert.ok(slow);
  // 300 KB a second at most, so that reading never pauses and a response of 1 MB takes longer than the limit.
  const timer = setInterval(() => slow.socket.read(6_000), 20);
  await waitFor(async () => (await countOf(http)) === 0, { what: 'it to be closed' });
  clearInterval(timer);
  destroyAll([slow]);
});

test('beyond the limit for unread responses their clients are disconnected, and memory stays bounded', async () => {
  const unreadBytes = { anonymous: 4 * MIB, known: 4 * MIB };
  const connections = { readMs: 60_000, checkEveryMs: 50, unreadBytes };
  await using http = await stubHttp({ timeouts: SLOW, connections });
  const deaf = [];
  for (let round = 0; round < 10; round += 1) deaf.push(...(await deafClients(http, 5)));
  const readsAll = async () => {
    const countResponse = await fetch(`${http.url}/openapi.json`);
    return (await countResponse.text()).length > 100_000;
  };
  await waitFor(async () => (await countOf(http)) < 50, { what: 'some to be cut off' });
  await waitFor(readsAll, { what: 'a client that reads to be served' });
  destroyAll(deaf);
});

test('a response to a disconnected client uses no memory of others', async () => {
  const responses: ServerResponse[] = [];
  await using served = await serveWith((response) => responses.push(response));
  const { connections, port } = served;
  const ask = () =>
    connect(port, '127.0.0.1')
      .on('error', () => {})
      .end(GET);
  for (let round = 1; round <= 10; round += 1) {
    const client = ask();
    await waitFor(() => responses.length === round, { what: 'the request' });
    client.destroy();
    await waitFor(() => responses.at(-1)?.destroyed, { what: 'the end of its connection' });
    connections.countResponse(responses.at(-1)!, MIB / 2);
  }
  ask();
  await waitFor(() => responses.length === 11, { what: 'the last request' });
  connections.countResponse(responses.at(-1)!, MIB);
});

type Served = AsyncDisposable & { connections: ClientConnections; port: number };

/** A server of Node with limited connections, without the app. */
async function serveWith(listener: (response: ServerResponse) => void): Promise<Served> {
  const limits = { ...CONNECTION_LIMITS, unreadBytes: { anonymous: MIB, known: MIB } };
  const log = pino({ level: 'silent' });
  const options = { limits, log, world: systemWorld, isShared: () => true, onTimeout: () => {} };
  const connections = new ClientConnections(options);
  const server = createServer((_request, response) => listener(response));
  connections.observe(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    connections,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      connections.stop();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Writes requests at once, and counts the responses that it reads. */
function pipeline(port: number, requests: number): { socket: Socket; read: () => number } {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  socket.write(GET.repeat(requests));
  return { socket, read: () => received.split('HTTP/1.1 200 ').length - 1 };
}

test('of 90 pipelined requests without a key one is begun until its response was sent', async () => {
  const begun: ServerResponse[] = [];
  await using served = await serveWith((response) => begun.push(response));
  const { socket, read } = pipeline(served.port, 90);
  for (let number = 1; number <= 90; number += 1) {
    await waitFor(() => begun.length === number, { what: 'the next request' });
    begun.at(-1)!.end('ok');
    assert.equal(begun.length, number);
  }
  await waitFor(() => read() === 90, { what: 'all responses' });
  socket.destroy();
});

test('pipelined requests with a key begin together, until a response is not read', async () => {
  const begun: ServerResponse[] = [];
  await using served = await serveWith((response) => begun.push(response));
  const { connections } = served;
  const { socket, read } = pipeline(served.port, 6);
  await waitFor(() => begun.length === 1, { what: 'the first request' });
  connections.markKnown(begun[0]!.req.socket, 'project');
  connections.countResponse(begun[0]!, 2);
  begun[0]!.end('ok');
  await waitFor(() => begun.length === 6, { what: 'the others' });
  socket.write(GET.repeat(2));
  await waitFor(() => begun.length === 8, { what: 'two more' });
  connections.countResponse(begun[1]!, MIB / 2);
  socket.write(GET);
  const other = pipeline(served.port, 1);
  await waitFor(() => begun.length === 9, { what: 'the request of another client' });
  begun[8]!.end('ok');
  await waitFor(() => other.read() === 1, { what: 'its response' });
  assert.equal(begun.length, 9, 'the ninth request of the first client has not begun');
  for (const response of begun.slice(1, 8)) response.end('ok');
  await waitFor(() => begun.length === 10, { what: 'its ninth request' });
  begun[9]!.end('ok');
  await waitFor(() => read() === 9, { what: 'its responses' });
  for (const client of [socket, other.socket]) client.destroy();
});

test('requests that follow too many on a connection are not begun', async () => {
  let begun = 0;
  await using served = await serveWith(() => (begun += 1));
  const { socket } = pipeline(served.port, 2_000);
  await waitFor(() => socket.destroyed, { what: 'the end of the connection' });
  assert.equal(begun, 1);
});

test('requests that follow a response with Connection: close are not begun', async () => {
  let begun = 0;
  await using served = await serveWith((response) => {
    begun += 1;
    response.setHeader('connection', 'close').end('ok');
  });
  const { socket, read } = pipeline(served.port, 10);
  await waitFor(() => socket.destroyed, { what: 'the end of the connection' });
  assert.deepEqual([begun, read()], [1, 1]);
});

function countOf(http: StubHttp): Promise<number> {
  return new Promise((resolve, reject) => {
    http.app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

test('a client keeps its newest connections, and other clients are not affected', async () => {
  const connections = { connectionsOfClient: 20 };
  await using http = await stubHttp({ timeouts: SLOW, connections, isShared: () => false });
  const other = open(http, { from: '127.0.0.2' });
  await waitFor(() => isConnected(other), { what: 'the other client' });
  const flood = Array.from({ length: 100 }, () => open(http));
  await waitFor(() => openOf(flood) === 20, { what: 'the oldest to be closed' });
  other.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await waitFor(() => other.received.startsWith('HTTP/1.1 200 '), {
    what: 'the other to be served',
  });
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202);
});

test('a client with a valid key keeps its connection during a flood', async () => {
  await using http = await stubHttp({ timeouts: SLOW, connections: { connections: 30 } });
  const get = `GET /v1/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n\r\n`;
  const known = open(http, { bytes: get });
  await waitFor(() => known.received.startsWith('HTTP/1.1 200 '), { what: 'the first answer' });
  const flood = Array.from({ length: 200 }, () => open(http));
  await waitFor(() => openOf(flood) === 29, { what: 'all but the newest to be closed' });
  known.received = '';
  known.socket.write(get);
  await waitFor(() => known.received.startsWith('HTTP/1.1 200 '), { what: 'the second answer' });
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202);
});

test('one project with a key cannot fill all connections', async () => {
  await using http = await stubHttp({ timeouts: SLOW, connections: { connections: 30 } });
  const get = `GET /v1/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n\r\n`;
  const flood = Array.from({ length: 60 }, () => open(http, { bytes: get }));
  await waitFor(() => openOf(flood) <= 30 && flood.some(({ received }) => received !== ''), {
    what: 'the rest to be closed',
  });
  const headers = { authorization: `Bearer ${http.keys.live}` };
  assert.equal((await http.post('/v1/emails', EMAIL, headers)).status, 202);
});

test('behind a proxy each client has its own limit of requests, and the proxy has none', async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const trustedProxies = ['127.0.0.1'];
  const config = {
    retention: { contentH: null, metadataH: null },
    metricsToken: 'token',
    trustedProxies,
    limits: DEFAULT_LIMITS,
  } as unknown as HttpServices['config'];
  await using http = await stubHttp({
    services: { metricsText: () => promise, config },
    timeouts: SLOW,
    connections: { requestsOfClient: 2 },
  });
  const ask = (client: string) => {
    const from = `X-Forwarded-For: ${client}\r\n`;
    const key = 'Authorization: Bearer token\r\n';
    return open(http, { bytes: `GET /metrics HTTP/1.1\r\nHost: x\r\n${key}${from}\r\n` });
  };
  const greedy = Array.from({ length: 5 }, () => ask('2001:db8::7'));
  const refused = () =>
    greedy.filter(({ received }) => received.startsWith('HTTP/1.1 503 ')).length;
  await waitFor(() => refused() === 3, { what: 'three of five to be refused' });
  const sameNetwork = ask('2001:db8::8');
  await waitFor(() => sameNetwork.received.startsWith('HTTP/1.1 503 '), { what: 'a refusal' });
  const others = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map(ask);
  resolve('');
  const served = (client: Client) => client.received.startsWith('HTTP/1.1 200 ');
  await waitFor(() => others.every(served), { what: 'other clients to be served' });
  await waitFor(() => greedy.filter(served).length === 2, { what: 'its first two, too' });
});

test('a request whose handler does not finish gets an error', async () => {
  const never = new Promise<never>(() => {});
  await using http = await stubHttp({
    services: { accept: () => never },
    timeouts: SLOW,
    connections: { responseMs: 200, checkEveryMs: 50 },
  });
  const response = await http.post('/v1/emails', EMAIL);
  assert.equal(response.status, 503);
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.equal(error.code, 'service_unavailable');
  assert.match(error.message, /may or may not have been executed/);
});

test('at most 100 requests may be pipelined on a connection', async () => {
  await using http = await stubHttp({ timeouts: SLOW });
  const get = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
  const few = open(http, { bytes: get.repeat(100) });
  await waitFor(() => few.received.split('HTTP/1.1 200 ').length === 101, {
    what: 'all responses',
  });
  const many = open(http, { bytes: get.repeat(1_000) });
  await waitFor(() => many.isClosed, { what: 'it to be closed' });
});
