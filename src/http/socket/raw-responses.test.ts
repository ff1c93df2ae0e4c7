/** Bytes on a socket that no HTTP client sends, and the responses to them. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SENT, stubHttp } from '../../../test/support/http.ts';

const TIMEOUTS = { headersMs: 200, requestMs: 400, silenceMs: 30_000, closeMs: 100 };
const http = await stubHttp({ timeouts: TIMEOUTS });
after(() => http[Symbol.asyncDispose]());

async function failureOf(bytes: string | Buffer): Promise<{ status: number; code: string }> {
  const responses = (await http.raw(bytes)).split(/(?=HTTP\/1\.1 \d{3} )/);
  return checked(responses.at(-1) ?? '');
}

function checked(response: string): { status: number; code: string } {
  const [head = '', body = ''] = response.split('\r\n\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
  assert.match(head, /\r\ncontent-type: application\/json; charset=utf-8(\r\n|$)/i, response);
  assert.equal(Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]), body.length, response);
  const { error } = JSON.parse(body) as { error: Record<string, string> };
  assert.equal(/\r\nx-request-id: (\S+)/i.exec(head)?.[1], error['request_id']);
  assert.ok(error['message']);
  return { status, code: error['code'] ?? '' };
}

const POST = (headers: string) =>
  `POST /v1/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
  `Content-Type: application/json\r\n${headers}\r\n`;

const CLOSE = 'Host: x\r\nConnection: close\r\n\r\n';

const CASES: [string, string | Buffer, number][] = [
  ['a line that is no request', 'hello there\r\n\r\n', 400],
  ['a TLS greeting', Buffer.from('16030102000100', 'hex'), 400],
  ['a method that does not exist', `FETCH /v1/emails HTTP/1.1\r\n${CLOSE}`, 400],
  ['HTTP/2 without agreement', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['a version from the future', `GET / HTTP/3.0\r\n${CLOSE}`, 400],
  ['two lengths', POST('Content-Length: 1\r\nContent-Length: 2\r\n'), 400],
  ['a length and chunks', POST('Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'), 400],
  ['a length that is no number', POST('Content-Length: many\r\n'), 400],
  ['a chunk size that is none', `${POST('Transfer-Encoding: chunked\r\n')}zz\r\n`, 400],
  ['a control character in a header', 'GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n', 400],
  ['a header without colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400],
  ['no Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ['a path over 8 KB', `GET /${'a'.repeat(9_000)} HTTP/1.1\r\n${CLOSE}`, 414],
  ['a path over 16 KB', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n${CLOSE}`, 414],
  ['headers over 16 KB', `GET / HTTP/1.1\r\nX: ${'a'.repeat(20_000)}\r\n${CLOSE}`, 431],
  ['an Expect that nobody knows', POST('Expect: magic\r\nConnection: close\r\n'), 417],
  ['a tunnel', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', 405],
  ['a method of WebDAV', `PROPFIND /v1/emails HTTP/1.1\r\n${CLOSE}`, 405],
  ['OPTIONS for everything', `OPTIONS * HTTP/1.1\r\n${CLOSE}`, 404],
  ['headers that never end', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ', 408],
  ['a body that never comes', `${POST('Content-Length: 100\r\n')}{`, 408],
  ['chunks that never end', `${POST('Transfer-Encoding: chunked\r\n')}1\r\n{\r\n`, 408],
];

for (const [what, bytes, status] of CASES) {
  test(`${what} gets ${status}, in JSON`, async () => {
    assert.equal((await failureOf(bytes)).status, status);
  });
}

test('the response arrives even after 300 KB of malformed data', async () => {
  assert.equal((await failureOf(Buffer.alloc(300_000))).status, 400);
});

test('malformed data after a request does not overtake its response', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const limit = { limit: 1, remaining: 0, resetS: 1, windowS: 1 };
  await using slow = await stubHttp({
    services: {
      accept: async () => {
        await promise;
        return { kind: 'accepted', body: JSON.stringify(SENT), limit };
      },
    },
  });
  const body = '{"from":"a@b.co","to":"c@d.org","subject":"s","text":"t"}';
  const head = POST(`Content-Length: ${body.length}\r\n`).replace(http.keys.full, slow.keys.full);
  const responses = slow.raw(`${head}${body}\0\0\0 nonsense\r\n\r\n`);
  setImmediate(() => resolve());
  const [first = '', second = ''] = (await responses).split(/(?=HTTP\/1\.1 \d{3} )/);
  assert.match(first, /^HTTP\/1\.1 202 /);
  assert.equal(checked(second).status, 400);
});

test('HTTP/1.0 is understood', async () => {
  assert.match(await http.raw('GET /healthz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 OK/);
});

test('a GET with a body is a GET', async () => {
  const bytes =
    `GET /v1/projects HTTP/1.1\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
    `Content-Type: application/json\r\nContent-Length: 4\r\n${CLOSE}nope`;
  assert.match(await http.raw(bytes), /^HTTP\/1\.1 200 OK/);
});

test('two Idempotency-Key headers are refused', async () => {
  const body = '{"from":"a@b.co","to":"c@d.org","subject":"s","text":"t"}';
  const headers = `Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: ${body.length}\r\n`;
  const response = await failureOf(POST(`${headers}Connection: close\r\n`) + body);
  assert.deepEqual(response, { status: 400, code: 'validation_error' });
});

const TOKENS = [
  'GET',
  'POST',
  ' ',
  '/',
  '/v1/emails',
  ' HTTP/1.1',
  '\r\n',
  '\r\n\r\n',
  'Host: x',
  ':',
  'Content-Length: ',
  'Transfer-Encoding: chunked',
  'Expect: 100-continue',
  'Upgrade: h2c',
  'Connection: close',
  'Connection: upgrade',
  '0\r\n\r\n',
  '5',
  '{"a":1}',
  '%',
  '\0',
  'é',
];

test('no bytes end the process or get a response that is not JSON', async () => {
  const token = fc.constantFrom(...TOKENS);
  await fc.assert(
    fc.asyncProperty(fc.array(token, { maxLength: 20 }), async (tokens) => {
      // Without a whole request the response comes only after the time limit, so there are few runs.
      const response = await http.raw(`${tokens.join('')}\r\n\r\nBAD\r\n\r\n`);
      for (const one of response.split(/(?=HTTP\/1\.1 \d{3} )/).filter((text) => text !== '')) {
        if (!one.startsWith('HTTP/1.1 1') && !one.startsWith('HTTP/1.1 2')) checked(one);
        assert.doesNotMatch(one, /^HTTP\/1\.1 5/);
      }
    }),
    { numRuns: 200 },
  );
  assert.equal((await fetch(`${http.url}/healthz`)).status, 200);
});
