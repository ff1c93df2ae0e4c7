/**
 * The client of webhooks and downloads over real sockets. 127.0.0.1 counts as public here, and every other address as
 * private.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'node:test';
import { startFakeDns, type FakeDns, type FakeZone } from '../../../test/support/fake-dns.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { type AddressGuard, createAddressGuard } from '../ip-addresses.ts';
import { createResolver } from '../dns/resolver.ts';
import {
  checkOutboundUrl,
  createHttpAgents,
  guardedRequest,
  type GuardedRequest,
} from './guarded-client.ts';

const world = { monotonicMs: () => performance.now() };
const PRIVATE_ALLOWED = createAddressGuard({ allowPrivate: true });
const STRICT = createAddressGuard({ allowPrivate: false });

const certificate = (name: string) =>
  readFileSync(new URL(`../../../test/support/certs/${name}.pem`, import.meta.url), 'utf8');
setDefaultCACertificates([...getCACertificates(), certificate('ca')]);

/** Treats 127.0.0.1 as public and everything else as private, because a test has only loopback. */
const LOOPBACK_IS_PUBLIC: AddressGuard = {
  allowPrivate: true,
  refusalReason: (ip) => (ip === '127.0.0.1' ? null : `${ip} is private in this test`),
};

type Listening = AsyncDisposable & { port: number; connections: () => number };

async function listening(server: Server): Promise<Listening> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const receiver = (handler: RequestListener) => listening(createServer(handler));
const rawServer = (onSocket: (socket: Socket) => void) => listening(createTcpServer(onSocket));

/** Sends a request with the settings that most tests share, and resolves names in `zone`. */
async function send(
  url: string,
  options: Partial<GuardedRequest> & { zone?: FakeZone; dns?: FakeDns } = {},
): Promise<Awaited<ReturnType<typeof guardedRequest>>> {
  const { zone, dns: given, ...request } = options;
  const dns = given ?? (await startFakeDns(zone));
  const cache = { minTtlMs: 0, maxTtlMs: 0, negativeTtlMs: 0, staleMs: 0 };
  const resolver = createResolver({ servers: [dns.server], world, cache });
  const answer = await guardedRequest({
    url,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
    guard: PRIVATE_ALLOWED,
    resolver,
    world,
    timeoutMs: 5_000,
    maxResponseBytes: 65_536,
    allowHttp: true,
    ...request,
  });
  resolver.close();
  if (given === undefined) await dns[Symbol.asyncDispose]();
  return answer;
}

const reasonOf = (answer: Awaited<ReturnType<typeof send>>) =>
  answer.kind === 'failed' ? answer.reason : `answered ${answer.status}`;

test('a request reaches a host that only our DNS knows, with its name in the Host header', async () => {
  const seen: Record<string, unknown> = {};
  await using server = await receiver((request, response) => {
    Object.assign(seen, { url: request.url, method: request.method, ...request.headers });
    request.on('data', (chunk) => Object.assign(seen, { body: String(chunk) }));
    request.on('end', () => response.writeHead(429, { 'retry-after': '30' }).end('later\0'));
  });
  const url = `http://hook.test:${server.port}/in?a=%20b#part`;
  const zone = { 'hook.test': { A: ['127.0.0.1'] } };
  const answer = await send(url, { zone, body: '{"a":1}', headers: { 'webhook-id': 'evt_1' } });
  assert.deepEqual(
    { ...answer, latencyMs: 0 },
    {
      kind: 'response',
      status: 429,
      headers: { retryAfter: '30', contentType: null },
      bodyStart: 'later\uFFFD',
      bodyComplete: true,
      latencyMs: 0,
    },
  );
  assert.equal(seen['host'], `hook.test:${server.port}`);
  assert.equal(seen['url'], '/in?a=%20b');
  assert.equal(seen['accept-encoding'], 'identity');
  assert.equal(seen['webhook-id'], 'evt_1');
  assert.equal(seen['body'], '{"a":1}');
});

test('over TLS the certificate must be for the name, although the address was checked', async () => {
  const pem = certificate('trusted');
  let servername: unknown = null;
  const handler: RequestListener = (request, response) => {
    servername = (request.socket as Socket & { servername?: string }).servername;
    response.end('ok');
  };
  await using server = await listening(createTlsServer({ key: pem, cert: pem }, handler));
  const zone = { 'hook.mx.test': { A: ['127.0.0.1'] }, 'other.test': { A: ['127.0.0.1'] } };
  const good = await send(`https://hook.mx.test:${server.port}/`, { zone });
  assert.equal(reasonOf(good), 'answered 200');
  assert.equal(servername, 'hook.mx.test');
  assert.equal(reasonOf(await send(`https://other.test:${server.port}/`, { zone })), 'tls');
  assert.equal(reasonOf(await send(`https://127.0.0.1:${server.port}/`, { zone })), 'tls');
});

for (const name of ['self-signed', 'expired', 'other-name']) {
  test(`a certificate that is ${name} fails as tls`, async () => {
    const pem = certificate(name);
    await using server = await listening(createTlsServer({ key: pem, cert: pem }, () => {}));
    const zone = { 'hook.mx.test': { A: ['127.0.0.1'] } };
    const answer = await send(`https://hook.mx.test:${server.port}/`, { zone });
    assert.equal(reasonOf(answer), 'tls');
  });
}

test('a server without TLS fails as tls', async () => {
  await using server = await receiver((_, response) => response.end());
  assert.equal(reasonOf(await send(`https://localhost:${server.port}/`)), 'tls');
});

test('a redirect is a response and is not followed', async () => {
  let requests = 0;
  await using server = await receiver((_, response) => {
    requests += 1;
    response.writeHead(301, { location: 'http://169.254.169.254/latest/meta-data/' }).end();
  });
  assert.equal(reasonOf(await send(`http://localhost:${server.port}/`)), 'answered 301');
  assert.equal(requests, 1);
});

test('64 KiB of a response of 10 GB are read, then the connection is closed', async () => {
  let closed = false;
  await using server = await receiver((request, response) => {
    response.writeHead(200, { 'content-length': String(10 * 1024 ** 3) });
    const pour = () => {
      while (response.writable && response.write('x'.repeat(65_536)));
    };
    response.on('drain', pour);
    request.socket.on('close', () => (closed = true));
    pour();
  });
  const answer = await send(`http://localhost:${server.port}/`, { maxResponseBytes: 1e9 });
  assert.ok(answer.kind === 'response');
  assert.equal(answer.bodyStart.length, 65_536);
  assert.equal(answer.bodyComplete, false);
  await waitFor(() => closed, { what: 'the connection to be closed' });
});

test('a small limit cuts a small response', async () => {
  await using server = await receiver((_, response) => response.end('0123456789'));
  const url = `http://localhost:${server.port}/`;
  const cut = await send(url, { maxResponseBytes: 9 });
  assert.deepEqual(cut.kind === 'response' && [cut.bodyStart, cut.bodyComplete], [
    '012345678',
    false,
  ]);
  const whole = await send(url, { maxResponseBytes: 10 });
  assert.equal(whole.kind === 'response' && whole.bodyComplete, true);
});

test('a server that never answers is a timeout', async () => {
  await using server = await receiver(() => {});
  const answer = await send(`http://localhost:${server.port}/`, { timeoutMs: 200 });
  assert.equal(reasonOf(answer), 'timeout');
  assert.ok(answer.latencyMs >= 190 && answer.latencyMs < 15_000);
});

test('a header that trickles is a timeout, a body that trickles is cut', async () => {
  await using header = await rawServer((socket) => socket.write('HTTP/1.1 200 OK\r\nX-Slow: '));
  const slow = await send(`http://localhost:${header.port}/`, { timeoutMs: 200 });
  assert.equal(reasonOf(slow), 'timeout');

  await using body = await rawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n');
    const drip = setInterval(() => socket.write('x'), 20);
    socket.on('close', () => clearInterval(drip));
  });
  // The header comes in time on a busy machine, too.
  const cut = await send(`http://localhost:${body.port}/`, { timeoutMs: 5_000 });
  assert.equal(reasonOf(cut), 'answered 200');
  assert.equal(cut.kind === 'response' && cut.bodyComplete, false);
});

test('a connection that breaks before the response fails as reset, and noise fails as protocol', async () => {
  await using broken = await rawServer((socket) => socket.once('data', () => socket.destroy()));
  assert.equal(reasonOf(await send(`http://localhost:${broken.port}/`)), 'reset');
  await using noise = await rawServer((socket) =>
    socket.once('data', () => socket.write('220 mx.test ESMTP\r\n')),
  );
  assert.equal(reasonOf(await send(`http://localhost:${noise.port}/`)), 'protocol');
  const endless = `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}`;
  await using large = await rawServer((socket) => socket.once('data', () => socket.write(endless)));
  assert.equal(reasonOf(await send(`http://localhost:${large.port}/`)), 'protocol');
});

/** Writes as long as the peer reads. */
function writeForever(socket: Socket, bytes: Buffer): void {
  const write = () => {
    while (!socket.destroyed && socket.write(bytes));
  };
  socket.on('drain', write);
  write();
}

test('endless informational responses fail as protocol, and a few are ignored', async () => {
  const early = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';
  await using flooding = await rawServer((socket) =>
    socket.once('data', () => writeForever(socket, Buffer.from(early.repeat(100)))),
  );
  const failed = await send(`http://127.0.0.1:${flooding.port}/`, { timeoutMs: 60_000 });
  assert.ok(failed.kind === 'failed' && failed.reason === 'protocol', JSON.stringify(failed));
  assert.match(failed.message, /more than 20 informational responses/);
  await using polite = await rawServer((socket) =>
    socket.once('data', () => socket.end(`${early.repeat(3)}HTTP/1.1 204 No Content\r\n\r\n`)),
  );
  const answer = await send(`http://127.0.0.1:${polite.port}/`);
  assert.ok(answer.kind === 'response' && answer.status === 204);
});

test('a response before the connection breaks counts', async () => {
  await using server = await rawServer((socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'));
  });
  const answer = await send(`http://localhost:${server.port}/`);
  assert.deepEqual(answer.kind === 'response' && [answer.status, answer.bodyStart], [200, 'abc']);
});

test('when a connection fails the next address is tried', async () => {
  await using server = await receiver((_, response) => response.end('ok'));
  // No server listens on 127.0.0.2 at this port.
  const zone = { 'hook.test': { A: ['127.0.0.2', '127.0.0.1'] } };
  assert.equal(reasonOf(await send(`http://hook.test:${server.port}/`, { zone })), 'answered 200');
  const closed = { 'hook.test': { A: ['127.0.0.2'] } };
  assert.equal(
    reasonOf(await send(`http://hook.test:${server.port}/`, { zone: closed })),
    'connect',
  );
});

test('one address that is not public makes the host refused, in either family', async () => {
  await using server = await receiver((_, response) => response.end('secret'));
  const zones = [
    { A: ['127.0.0.1', '10.0.0.1'] },
    { A: ['127.0.0.1'], AAAA: ['::1'] },
    { AAAA: ['::ffff:127.0.0.1'] },
  ];
  for (const records of zones) {
    const answer = await send(`http://hook.test:${server.port}/`, {
      zone: { 'hook.test': records },
      guard: LOOPBACK_IS_PUBLIC,
    });
    assert.equal(reasonOf(answer), 'refused');
  }
  assert.equal(server.connections(), 0);
});

test('a DNS answer that changes after the check has no effect', async () => {
  await using server = await receiver((_, response) => response.end('ok'));
  await using dns = await startFakeDns();
  let asked = 0;
  // First the public address, then the private one, as in an attack.
  dns.set('rebind.test', 'A', () => (asked++ === 0 ? ['127.0.0.1'] : ['127.0.0.2']));
  const request = { dns, guard: LOOPBACK_IS_PUBLIC };
  const url = `http://rebind.test:${server.port}/`;
  assert.equal(reasonOf(await send(url, request)), 'answered 200');
  assert.equal(asked, 1, 'nobody asks again between the check and the connection');
  assert.equal(reasonOf(await send(url, request)), 'refused');
});

test('a connection kept from before is not used after the host has moved to a private address', async () => {
  await using server = await receiver((_, response) => response.end('ok'));
  await using dns = await startFakeDns({ 'hook.test': { A: ['127.0.0.1'] } });
  const agents = createHttpAgents();
  const request = { dns, agents, guard: LOOPBACK_IS_PUBLIC };
  const url = `http://hook.test:${server.port}/`;
  for (let turn = 0; turn < 3; turn++)
    assert.equal(reasonOf(await send(url, request)), 'answered 200');
  assert.equal(server.connections(), 1, 'the connection is reused');
  dns.set('hook.test', 'A', ['10.0.0.1']);
  assert.equal(reasonOf(await send(url, request)), 'refused');
  await agents.close();
});

test('URLs with private addresses are refused without a connection or DNS query', async () => {
  await using dns = await startFakeDns({ 'inside.test': { A: ['10.0.0.1'] } });
  const urls = [
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://a.localhost/',
    'https://metadata.google.internal/',
    'https://user:secret@8.8.8.8/',
    'https://8.8.8.8:22/',
    'http://8.8.8.8/',
    'ftp://8.8.8.8/',
    'file:///etc/passwd',
    'no url',
  ];
  for (const url of urls) {
    const answer = await send(url, { dns, guard: STRICT, allowHttp: false });
    assert.equal(reasonOf(answer), 'refused', url);
  }
  assert.equal(dns.queries.length, 0);
  const inside = await send('https://inside.test/', { dns, guard: STRICT });
  assert.equal(reasonOf(inside), 'refused');
  assert.match(inside.kind === 'failed' ? inside.message : '', /10\.0\.0\.1 is a private address/);
});

test('a host without an address and an unavailable DNS fail as dns, and a slow DNS as timeout', async () => {
  await using dns = await startFakeDns({ 'empty.test': { TXT: ['x'] } });
  dns.setFailure('broken.test', 'servfail');
  dns.setFailure('slow.test', 'timeout');
  for (const host of ['nowhere.test', 'empty.test', 'broken.test']) {
    assert.equal(reasonOf(await send(`https://${host}/`, { dns })), 'dns', host);
  }
  const slow = await send('https://slow.test/', { dns, timeoutMs: 100 });
  assert.equal(reasonOf(slow), 'timeout');
});

test('registration reports what is wrong with a URL', () => {
  const strict = (url: string) => checkOutboundUrl(url, { allowPrivate: false });
  assert.equal(strict('https://hooks.example.org/letterhaus?x=1'), null);
  assert.equal(strict('https://hooks.example.org:443/'), null);
  assert.equal(strict('https://8.8.8.8/'), null);
  assert.match(strict('hooks.example.org') ?? '', /not a URL/);
  assert.match(strict('http://hooks.example.org/') ?? '', /https/);
  assert.match(strict('https://u:p@hooks.example.org/') ?? '', /user name/);
  assert.match(strict('https://hooks.example.org:8080/') ?? '', /port 8080/);
  assert.match(strict('https://localhost/') ?? '', /private network/);
  assert.match(strict('https://intranet/') ?? '', /cannot be reached/);
  assert.match(strict('https://10.0.0.1/') ?? '', /cannot be reached/);
  assert.match(strict('https://[fd00::1]/') ?? '', /cannot be reached/);
  assert.match(strict(`https://hooks.example.org/${'x'.repeat(3_000)}`) ?? '', /longer/);
  const lenient = (url: string) => checkOutboundUrl(url, { allowPrivate: true });
  assert.equal(lenient('http://localhost:3000/hook'), null);
  assert.equal(lenient('http://10.0.0.1:8080/'), null);
  assert.match(lenient('ftp://localhost/') ?? '', /https/);
});
