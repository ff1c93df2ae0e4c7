/**
 * Downloads of attachments from HTTP servers on loopback, which these tests permit. test/api/production.test.ts shows
 * that a service refuses such addresses.
 */
import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { after, test } from 'node:test';
import { waitFor } from '../../../test/support/wait.ts';
import { isRefusal, Overloaded, type Refusal } from '../../core/refusals.ts';
import { createAddressGuard } from '../../net/ip-addresses.ts';
import {
  AttachmentUrls,
  type AttachmentUrlOptions,
  type NamedAttachment,
} from './attachment-urls.ts';
import { MIB } from '../../lib/units.ts';

const closing: (() => void)[] = [];
after(() => closing.forEach((close) => close()));

async function listening(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('error', () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const fileServer = (handler: RequestListener) => listening(createServer(handler));
const rawServer = (onSocket: (socket: Socket) => void) => listening(createTcpServer(onSocket));

/** Allows private addresses, where the servers of the tests listen. */
const DEVELOPMENT = createAddressGuard({ allowPrivate: true });
const NOTHING_IN_DNS = { kind: 'nxdomain' } as never;

function urlsWith(options: Partial<AttachmentUrlOptions> = {}): AttachmentUrls {
  return new AttachmentUrls({
    guard: DEVELOPMENT,
    resolver: { a: async () => NOTHING_IN_DNS, aaaa: async () => NOTHING_IN_DNS },
    world: { monotonicMs: () => performance.now() },
    ...options,
  });
}

/** The signal of a client that stays connected. */
const STAYS = new AbortController().signal;

const requestOf = (urls: AttachmentUrls, take: (bytes: number) => boolean = () => true) =>
  urls.forRequest({ projectId: 'p1', take, gone: () => STAYS });

const named = (path: string): NamedAttachment => ({ filename: 'a.txt', path });

function messageOf(result: NamedAttachment[] | Refusal): string {
  assert.ok(isRefusal(result), 'the attachments were downloaded');
  assert.equal(result.refused, 'validation_error');
  return result.message;
}

async function contentsOf(result: Promise<NamedAttachment[] | Refusal>): Promise<string[]> {
  const attachments = await result;
  assert.ok(!isRefusal(attachments), JSON.stringify(attachments));
  return attachments.map(({ content }) => Buffer.from(content ?? '', 'base64').toString());
}

test('files are downloaded in their places, and each URL once for all emails of a request', async () => {
  const asked: string[] = [];
  const server = await fileServer(({ url = '' }, response) => {
    asked.push(url);
    response.end(`file ${url}`);
  });
  const request = requestOf(urlsWith());
  const attachments: NamedAttachment[] = [
    named(`${server}/1`),
    { filename: 'b.txt', content: 'Yg==', content_id: 'b' },
    { ...named(`${server}/2?x=1`), content_type: 'text/csv' },
  ];
  assert.deepEqual(await request.download(attachments), [
    { filename: 'a.txt', content: Buffer.from('file /1').toString('base64') },
    { filename: 'b.txt', content: 'Yg==', content_id: 'b' },
    {
      filename: 'a.txt',
      content: Buffer.from('file /2?x=1').toString('base64'),
      content_type: 'text/csv',
    },
  ]);
  assert.deepEqual(await contentsOf(request.download([named(`${server}/1`)])), ['file /1']);
  assert.deepEqual(asked, ['/1', '/2?x=1']);
});

test('an empty file is a file', async () => {
  const server = await fileServer((_request, response) => response.end());
  assert.deepEqual(await contentsOf(requestOf(urlsWith()).download([named(server)])), ['']);
});

test('a response that is not the file itself refuses the email and names the attachment', async () => {
  const redirecting = await fileServer((_request, response) =>
    response.writeHead(302, { location: '/elsewhere' }).end('moved'),
  );
  const missing = await fileServer((_request, response) => response.writeHead(404).end());
  const partial = await fileServer((_request, response) => response.writeHead(206).end('part'));
  const compressing = await fileServer((_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end('zipped'),
  );
  const lying = await rawServer((socket) =>
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'),
  );
  const closed = await rawServer((socket) => socket.destroy());
  const garbage = await rawServer((socket) => socket.end('220 mx.example ESMTP\r\n'));
  const cases: [url: string, message: RegExp][] = [
    [redirecting, /responded with 302, a redirection, .* the file itself$/],
    [missing, /responded with 404 instead of 200$/],
    [partial, /responded with 206 instead of 200$/],
    [compressing, /Content-Encoding/],
    [lying, /closed the connection before its response was complete/],
    [closed, /closed the connection/],
    [garbage, /not valid HTTP/],
    ['https://missing.test/a', /missing\.test has no public address in DNS$/],
  ];
  for (const [url, message] of cases) {
    const request = requestOf(urlsWith());
    const text = messageOf(await request.download([{ filename: 'x', content: '' }, named(url)]));
    assert.match(text, /^attachments\[1\]\.path: /);
    assert.match(text, message);
  }
});

test('a refusal names no address of the internal network', async () => {
  const records =
    (...found: string[]) =>
    async () =>
      ({ kind: 'records', records: found }) as never;
  const failing = async () =>
    ({ kind: 'error', message: 'the A look-up failed (10.0.0.2 did not answer)' }) as never;
  const production = createAddressGuard({ allowPrivate: false });
  const closed = new URL(await fileServer(() => {})).port;
  closing.pop()?.();
  const cases: [url: string, options: Partial<AttachmentUrlOptions>][] = [
    [
      'https://db.example/a',
      { guard: production, resolver: { a: records('10.1.2.3'), aaaa: records() } },
    ],
    ['https://db.example/a', { guard: production, resolver: { a: failing, aaaa: failing } }],
    [`http://db.example:${closed}/a`, { resolver: { a: records('127.0.0.1'), aaaa: records() } }],
  ];
  for (const [url, options] of cases) {
    const text = messageOf(await requestOf(urlsWith(options)).download([named(url)]));
    assert.match(text, /db\.example/);
    assert.doesNotMatch(text, /\d+\.\d+\.\d+\.\d+|private|loopback/);
  }
});

test('only https URLs of public addresses are requested', async () => {
  let connections = 0;
  const server = await rawServer(() => (connections += 1));
  const urls = urlsWith({ guard: createAddressGuard({ allowPrivate: false }) });
  const { port } = new URL(server);
  for (const url of [
    server,
    `https://127.0.0.1:${port}/`,
    'https://127.0.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://[::ffff:10.0.0.1]/',
    'https://localhost/a',
    'https://user:secret@files.example/',
    'file:///etc/passwd',
    'a.pdf',
  ]) {
    assert.match(
      messageOf(await requestOf(urls).download([named(url)])),
      /^attachments\[0\]\.path: /,
    );
  }
  assert.equal(connections, 0);
});

test('a path beside content is refused, because one of them would be lost', async () => {
  const both = { ...named('https://files.example/a'), content: 'YQ==' };
  assert.match(
    messageOf(await requestOf(urlsWith()).download([both])),
    /cannot be combined with content/,
  );
});

test('the download of an endless file stops at the limit of a request', async () => {
  const chunk = Buffer.alloc(MIB);
  let isClosed = false;
  const server = await fileServer((_request, response) => {
    const write = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', write).on('close', () => (isClosed = true));
    write();
  });
  const message = messageOf(await requestOf(urlsWith()).download([named(server)]));
  assert.match(message, /exceeds the limit of a request: 45 MB/);
  await waitFor(() => isClosed, { what: 'the end of the connection' });
});

test('a file in pieces of one byte is refused, because each costs as much as a large one', async () => {
  const server = await rawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    const pieces = Buffer.from('1\r\nx\r\n'.repeat(10_000));
    const write = () => {
      while (!socket.destroyed && socket.write(pieces));
    };
    socket.on('drain', write);
    write();
  });
  const message = messageOf(await requestOf(urlsWith()).download([named(server)]));
  assert.match(message, /in pieces of a few bytes/);
});

test('a file counts once for each email that has it', async () => {
  const file = Buffer.alloc(12 * MIB);
  const server = await fileServer((_request, response) => response.end(file));
  let takenBytes = 0;
  const request = requestOf(urlsWith(), (bytes) => (takenBytes += bytes) > 0);
  for (let email = 1; email <= 2; email += 1) {
    assert.ok(!isRefusal(await request.download([named(server)])));
    assert.equal(Math.round(takenBytes / MIB), 16 * email);
  }
  assert.match(
    messageOf(await request.download([named(server)])),
    /exceeds the limit of a request/,
  );
});

test('without memory the client is asked to retry, and the email is not refused', async () => {
  const server = await fileServer((_request, response) => response.end('file'));
  const request = requestOf(urlsWith(), () => false);
  await assert.rejects(request.download([named(server)]), Overloaded);
});

test('a silent server uses up the time of a request, and the rest of the request is refused at once', async () => {
  let connections = 0;
  const server = await rawServer(() => (connections += 1));
  const request = requestOf(urlsWith({ requestMs: 200 }));
  assert.match(messageOf(await request.download([named(server)])), /no complete response within/);
  assert.match(
    messageOf(await request.download([named(`${server}/2`)])),
    /must arrive within 0.2 s/,
  );
  assert.equal(connections, 1);
});

test('a server that sends slowly uses up no more than that time', async () => {
  const timers: NodeJS.Timeout[] = [];
  const server = await fileServer((_request, response) => {
    timers.push(setInterval(() => response.write('.'), 10));
  });
  const request = requestOf(urlsWith({ requestMs: 200 }));
  assert.match(messageOf(await request.download([named(server)])), /no complete response within/);
  timers.forEach((timer) => clearInterval(timer));
});

test('four requests of a project download at a time, and other projects do not wait for them', async () => {
  const open: (() => void)[] = [];
  const server = await fileServer(({ url }, response) => {
    if (url === '/quick') response.end('quick');
    else open.push(() => response.end('open'));
  });
  const urls = urlsWith();
  const downloads = Array.from({ length: 6 }, () =>
    contentsOf(requestOf(urls).download([named(`${server}/open`)])),
  );
  await waitFor(() => open.length === 4, { what: 'four downloads' });
  const other = urls.forRequest({ projectId: 'p2', take: () => true, gone: () => STAYS });
  assert.deepEqual(await contentsOf(other.download([named(`${server}/quick`)])), ['quick']);
  assert.equal(open.length, 4);
  for (let ended = 0; ended < 6; ended += 1) {
    await waitFor(() => open.length > 0, { what: 'a further download' });
    open.shift()!();
  }
  const contents = (await Promise.all(downloads)).flat();
  assert.equal(contents.filter((content) => content === 'open').length, 6);
});

test('a client whose request timed out behind others is asked to retry, and the email is not refused', async () => {
  const server = await rawServer(() => {});
  const urls = urlsWith({ requestMs: 200 });
  // Their time begins at once, before the first download has loaded code.
  const requests = Array.from({ length: 5 }, () => requestOf(urls));
  const ends = await Promise.allSettled(requests.map((one) => one.download([named(server)])));
  const late = ends.filter((end) => end.status === 'rejected');
  assert.equal(late.length, 1);
  assert.ok(late[0]!.reason instanceof Overloaded);
});

/** A server that never answers, with its open connections. */
async function silentServer() {
  const sockets = new Set<Socket>();
  const url = await rawServer((socket) => {
    sockets.add(socket.on('close', () => sockets.delete(socket)).resume());
  });
  return { url, sockets };
}

test('when the client disconnects, its download ends and its waiting download does not start', async () => {
  const { url, sockets } = await silentServer();
  const urls = urlsWith();
  const client = new AbortController();
  const gone = () => client.signal;
  const begin = () =>
    urls.forRequest({ projectId: 'p1', take: () => true, gone }).download([named(url)]);
  const downloads = Promise.allSettled(Array.from({ length: 6 }, begin));
  await waitFor(() => sockets.size === 4, { what: 'four downloads' });
  client.abort(new Overloaded('the client has disconnected'));
  for (const end of await downloads) assert.ok(end.status === 'rejected');
  await waitFor(() => sockets.size === 0, { what: 'the end of the connections' });
  const server = await fileServer((_request, response) => response.end('file'));
  assert.deepEqual(await contentsOf(requestOf(urls).download([named(server)])), ['file']);
});

test('when the service stops, downloads end and clients are asked to retry', async () => {
  const { url, sockets } = await silentServer();
  const urls = urlsWith();
  const download = () => requestOf(urls).download([named(url)]);
  const begun = Promise.allSettled(Array.from({ length: 5 }, download));
  await waitFor(() => sockets.size === 4, { what: 'four downloads' });
  urls.stop();
  const later = await Promise.allSettled([download()]);
  for (const end of [...(await begun), ...later]) {
    assert.ok(end.status === 'rejected');
    assert.match(String(end.reason), /^Overloaded: the service is stopping$/);
  }
  await waitFor(() => sockets.size === 0, { what: 'the end of the connections' });
});

test('the downloads of one project leave capacity for others', async () => {
  const { url } = await silentServer();
  const urls = urlsWith();
  const silent = Array.from({ length: 300 }, () => requestOf(urls).download([named(url)]));
  const refused = silent.map((one) => one.catch((error: unknown) => error));
  assert.ok((await refused.at(-1)) instanceof Overloaded);
  const server = await fileServer((_request, response) => response.end('file'));
  const other = urls.forRequest({ projectId: 'p2', take: () => true, gone: () => STAYS });
  assert.deepEqual(await contentsOf(other.download([named(server)])), ['file']);
  urls.stop();
  await Promise.all(refused);
});
