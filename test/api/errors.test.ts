/** Errors: each code, and that every failure is JSON of one shape. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { once } from 'node:events';
import { assertFailure, EMAIL, rawResponse, rawResponses, UNKNOWN_ID } from '../support/api.ts';
import { type RequestOptions, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({ env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' } });
after(() => service[Symbol.asyncDispose]());

// Slow by nature: under way while the other tests run.
const tooSlow = Promise.all([
  rawResponses(service.url, 'GET /v1/emails HTTP/1.1\r\nHost: x\r\nX-Slow: '),
  rawResponses(service.url, `${postHead('Content-Length: 100')}{"from"`),
]);

function postHead(...more: string[]): string {
  const lines = [
    'POST /v1/emails HTTP/1.1',
    'Host: letterhaus',
    `Authorization: Bearer ${service.testKey}`,
    'Content-Type: application/json',
    'Connection: close',
    ...more,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

const post = (body: unknown, options: RequestOptions = {}) =>
  service.request('POST', '/v1/emails', { body, ...options });

test('400: invalid JSON', async () => {
  for (const body of ['{', 'from=a&to=b', '{"from": "a",}', "{'a': 1}", 'NaN', '{}{}']) {
    assertFailure(await post(body), 400, 'validation_error', /JSON/);
  }
  const bytes = Buffer.from(JSON.stringify({ ...EMAIL, subject: 'Gr\u00fc\u00dfe' }), 'latin1');
  const latin1 = await rawResponse(
    service.url,
    Buffer.concat([Buffer.from(postHead(`Content-Length: ${bytes.length}`)), bytes]),
  );
  assertFailure(latin1, 400, 'validation_error', /UTF-8/);
});

test('400: a malformed Idempotency-Key', async () => {
  for (const key of ['', ' ', 'x'.repeat(257), 'caf\u00e9', 'a\tb']) {
    const response = await post(EMAIL, { headers: { 'idempotency-key': key } });
    assertFailure(response, 400, 'validation_error', /Idempotency-Key/);
  }
  const body = JSON.stringify(EMAIL);
  const twice = postHead(
    'Idempotency-Key: a',
    'Idempotency-Key: b',
    `Content-Length: ${body.length}`,
  );
  assertFailure(await rawResponse(service.url, twice + body), 400, 'validation_error');
});

test('401: no key, a malformed key, and one message for all keys that no longer work', async () => {
  const make = async (rights: object) =>
    (await service.request('POST', '/v1/api-keys', { body: { name: 'key', ...rights } })).body;
  const revoked = await make({});
  await service.request('DELETE', `/v1/api-keys/${revoked.id}`);
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const expired = await make({ expires_at });
  await service.sql(`update api_keys set expires_at = app_now() - interval '1 s' where id = $1`, [
    expired.id,
  ]);
  const unknown = await make({});
  await service.sql('delete from api_keys where id = $1', [unknown.id]);
  const ask = (authorization?: string) =>
    service.request('GET', '/v1/emails', {
      key: null,
      ...(authorization === undefined ? {} : { headers: { authorization } }),
    });
  for (const authorization of [undefined, '', 'Bearer', 'Bearer ', 'Basic YTpi', revoked.key]) {
    assertFailure(await ask(authorization), 401, 'authentication_error');
  }
  const messages = new Set<string>();
  for (const { key } of [revoked, expired, unknown]) {
    const response = await ask(`Bearer ${key}`);
    assertFailure(response, 401, 'authentication_error');
    messages.add(response.body.error.message);
  }
  assert.equal(messages.size, 1);
});

test('403: a key without the permission, a domain that is not verified', async () => {
  const { body: sender } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'sender', permission: 'sending_access' },
  });
  const domains = await service.request('GET', '/v1/domains', { key: sender.key });
  assertFailure(domains, 403, 'authorization_error');
  const { body: limited } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'limited', permission: 'sending_access', domain: 'other.test' },
  });
  assertFailure(await post(EMAIL, { key: limited.key }), 403, 'authorization_error', /other\.test/);
  const unverified = await post({ ...EMAIL, from: 'a@unverified.test' });
  assertFailure(unverified, 403, 'domain_not_verified', /unverified\.test/);
});

test('404: a route that does not exist, an id that does not exist', async () => {
  for (const path of ['/', '/v1', '/v2/emails', '/v1/email', '/v1/emails/x/y/z', '/index.html']) {
    assertFailure(await service.request('GET', path), 404, 'not_found');
  }
  assertFailure(await service.request('GET', `/v1/emails/${UNKNOWN_ID}`), 404, 'not_found');
});

/** Returns whether a request for the path could be one for the template. */
function isOfForm(path: string, template: string): boolean {
  return new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
}

test('405 with Allow: every path with every method that it does not take', async () => {
  const { body } = await service.request('GET', '/openapi.json');
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
  const paths = Object.entries(body.paths as Record<string, object>).map(
    ([template, operations]): [string, string[]] => [
      template,
      Object.keys(operations).map((method) => method.toUpperCase()),
    ],
  );
  for (const [template, operations] of Object.entries(body.paths as Record<string, object>)) {
    const path = template.replaceAll(/\{\w+\}/g, UNKNOWN_ID);
    const taken = Object.keys(operations).map((method) => method.toUpperCase());
    // `/deliveries/replay` also has the form of `/deliveries/{id}`.
    const others = paths.flatMap(([other, theirs]) => (isOfForm(path, other) ? theirs : []));
    for (const method of methods.filter((one) => !others.includes(one))) {
      const response = await service.request(method, path);
      assertFailure(response, 405, 'method_not_allowed');
      const allow = response.headers.get('allow')?.split(', ') ?? [];
      const missing = taken.filter((one) => !allow.includes(one));
      const wrong = allow.filter((one) => one !== 'HEAD' && !others.includes(one));
      assert.deepEqual([missing, wrong], [[], []], `${method} ${path}`);
    }
  }
});

test('409: the same key with another body, a domain added twice', async () => {
  const headers = { 'idempotency-key': randomUUID() };
  assert.equal((await post(EMAIL, { headers })).status, 202);
  const other = await post({ ...EMAIL, subject: 'Other' }, { headers });
  assertFailure(other, 409, 'idempotency_conflict');
  const body = { name: 'Acme.TEST' };
  assertFailure(await service.request('POST', '/v1/domains', { body }), 409, 'conflict');
});

test('413: a body over 45 MB, with or without Content-Length', async () => {
  const response = await rawResponse(service.url, postHead('Content-Length: 50000000'));
  assertFailure(response, 413, 'payload_too_large');
  const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
  const withoutLength = await rawResponse(
    service.url,
    `${postHead('Transfer-Encoding: chunked')}${chunk.repeat(46)}0\r\n\r\n`,
  );
  assertFailure(withoutLength, 413, 'payload_too_large');
});

test('415: another type, another charset, an encoding, no type at all', async () => {
  const types = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
  ];
  for (const type of [...types, 'application/json; charset=utf-16', 'json', 'application/xml']) {
    const response = await post(EMAIL, { headers: { 'content-type': type } });
    assertFailure(response, 415, 'unsupported_media_type');
  }
  const encoded = await post(EMAIL, { headers: { 'content-encoding': 'gzip' } });
  assertFailure(encoded, 415, 'unsupported_media_type');
  const untyped = postHead('Content-Length: 2').replace(/Content-Type.*\r\n/, '');
  assertFailure(await rawResponse(service.url, `${untyped}{}`), 415, 'unsupported_media_type');
});

test('422: every problem is reported, the first one in the message', async () => {
  const response = await post({ from: 'hello@acme.test', to: ['a@b.test', 'bob@'], subject: '' });
  assertFailure(response, 422, 'validation_error', /^to\[1\]: "bob@" is not an email address/);
  const { details } = response.body.error;
  assert.deepEqual(
    details.map(({ field }: { field: string }) => field),
    ['to[1]', 'subject', 'html'],
  );
});

test('422: when all recipients are suppressed', async () => {
  await service.request('POST', '/v1/suppressions', { body: { address: 'gone@errors.test' } });
  const response = await post({ ...EMAIL, to: 'Gone@errors.test' });
  assertFailure(response, 422, 'suppressed');
});

const CLOSE = 'Host: x\r\nConnection: close\r\n\r\n';
const get = (path: string) => `GET ${path} HTTP/1.1\r\n${CLOSE}`;

const BROKEN_HTTP: [string, string | Buffer, number, string][] = [
  ['a line that is no request', 'hello\r\n\r\n', 400, 'validation_error'],
  ['a TLS greeting', Buffer.from('16030102000100', 'hex'), 400, 'validation_error'],
  ['bytes without any sense', Buffer.alloc(100_000, 0xfe), 400, 'validation_error'],
  ['a version from the future', `GET / HTTP/9.9\r\n${CLOSE}`, 400, 'validation_error'],
  ['a method that does not exist', `FETCH / HTTP/1.1\r\n${CLOSE}`, 400, 'validation_error'],
  ['no Host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'validation_error'],
  ['two Hosts', 'GET /healthz HTTP/1.1\r\nHost: a.example\r\n' + CLOSE, 400, 'validation_error'],
  ['one Host twice', 'GET /healthz HTTP/1.1\r\nHost: x\r\n' + CLOSE, 400, 'validation_error'],
  ...['user@x', 'user:secret@x', 'x/path', 'x, y', 'x y', 'x:80:90', '[::1'].map(
    (host): [string, string, number, string] => [
      `the Host ${host}`,
      `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
      400,
      'validation_error',
    ],
  ),
  ['another host in the target', get('http://other.example/healthz'), 400, 'validation_error'],
  ['a user in the target', get('http://user@x/healthz'), 400, 'validation_error'],
  ['a NUL in a header', 'GET / HTTP/1.1\r\nX: a\0b\r\n\r\n', 400, 'validation_error'],
  ['a header without colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400, 'validation_error'],
  ['a path that is not one', get('/v1/emails/%zz'), 400, 'validation_error'],
  ['two lengths', postHead('Content-Length: 1', 'Content-Length: 2'), 400, 'validation_error'],
  [
    'a length and chunks',
    postHead('Content-Length: 1', 'Transfer-Encoding: chunked'),
    400,
    'validation_error',
  ],
  [
    'a chunk without size',
    `${postHead('Transfer-Encoding: chunked')}zz\r\n`,
    400,
    'validation_error',
  ],
  [
    'a tunnel',
    'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n',
    405,
    'method_not_allowed',
  ],
  ['a long path', get(`/v1/emails/${'a'.repeat(9_000)}`), 414, 'validation_error'],
  ['a long query', get(`/v1/emails?to=${'a'.repeat(9_000)}`), 414, 'validation_error'],
  ['a very long path', get(`/${'a'.repeat(40_000)}`), 414, 'validation_error'],
  ['an Expect that nobody knows', postHead('Expect: miracles'), 417, 'validation_error'],
  [
    'large headers',
    `GET / HTTP/1.1\r\nX: ${'a'.repeat(40_000)}\r\n${CLOSE}`,
    431,
    'validation_error',
  ],
];

test('a target in absolute form is its path, with any port and in brackets', async () => {
  for (const host of ['x', 'x:8080', '[::1]:8080', '127.0.0.1']) {
    const head = `GET http://${host}/healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    assert.equal((await rawResponse(service.url, head)).status, 200, host);
  }
  const old = await rawResponse(service.url, 'GET /healthz HTTP/1.0\r\n\r\n');
  assert.equal(old.status, 200);
});

for (const [what, bytes, status, code] of BROKEN_HTTP) {
  test(`${status}: ${what}`, async () => {
    const response = await rawResponse(service.url, bytes);
    assertFailure(response, status, code);
    if (status === 405) assert.ok(response.headers.get('allow'));
  });
}

test('malformed data after a request on one connection is refused after its response', async () => {
  const responses = await rawResponses(
    service.url,
    'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n\0\0nonsense\r\n\r\n',
  );
  assert.deepEqual(
    responses.map(({ status }) => status),
    [200, 400],
  );
  assertFailure(responses[1]!, 400, 'validation_error');
});

test('503: while the database is unavailable, with recovery afterwards', async () => {
  const send = () => service.request('POST', '/v1/emails', { body: EMAIL });
  assert.equal((await send()).status, 202);
  const before = await countEmails();
  await service.setDatabaseReachable(false);
  const isUnready = async () => {
    const response = await service.request('GET', '/readyz', { key: null });
    return response.status === 503 && response;
  };
  const refused = [
    await send(),
    await service.request('POST', '/v1/emails', {
      body: EMAIL,
      headers: { 'idempotency-key': 'a' },
    }),
    await service.request('GET', '/v1/emails'),
    await service.request('POST', '/v1/domains', { body: { name: 'away.test' } }),
    await waitFor(isUnready, { what: 'the service to say that it is not ready' }),
  ];
  for (const response of refused) {
    // test/journey/readiness.test.ts has the members that /readyz adds.
    const { status: _status, reasons: _reasons, ...body } = response.body;
    assertFailure({ ...response, body }, 503, 'service_unavailable');
    assert.match(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  }
  assert.match(refused[0]!.body.error.message, /nothing was accepted|may have been accepted/);
  assert.equal((await service.request('GET', '/healthz', { key: null })).status, 200);
  await service.setDatabaseReachable(true);
  await waitFor(async () => (await send()).status === 202, { what: 'the service to recover' });
  const isReady = async () =>
    (await service.request('GET', '/readyz', { key: null })).status === 200;
  await waitFor(isReady, { what: 'the service to say that it is ready' });
  assert.equal(await countEmails(), before + 1);
});

async function countEmails(): Promise<number> {
  const [row] = await service.sql('select count(*)::int as count from emails');
  return row.count;
}

test('408: a request that does not arrive in time', async () => {
  const [neverEndingHead, neverComingBody] = await tooSlow;
  assertFailure(neverEndingHead[0]!, 408, 'request_timeout');
  assertFailure(neverComingBody[0]!, 408, 'request_timeout');
});

test('503: a stopping service refuses incomplete requests, and those whose file has not arrived', async (t) => {
  const open = new Set<object>();
  const web = createServer((_, response) => open.add(response));
  t.after(() => {
    web.closeAllConnections();
    web.close();
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const path = `http://127.0.0.1:${(web.address() as AddressInfo).port}/open`;
  const waiting = post({ ...EMAIL, attachments: [{ filename: 'a.txt', path }] });
  await waitFor(() => open.size === 1, { what: 'the download' });
  const { hostname, port } = new URL(service.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let text = '';
  socket.setEncoding('utf8').on('data', (part: string) => (text += part));
  const closed = once(socket, 'close');
  // The response to the first shows that the beginning of the second has been read with it.
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/emails HTTP/1.1\r\nHost: x\r\n');
  await waitFor(() => text.includes('ok'), { what: 'the first response' });
  const stopped = service.stop();
  // One that comes in this very moment may be left without a response until the service is gone.
  const isClosed = () =>
    fetch(`${service.url}/healthz`, { signal: AbortSignal.timeout(2_000) }).then(
      () => false,
      () => true,
    );
  await waitFor(isClosed, { what: 'the service to take no more connections' });
  socket.write(`Authorization: Bearer ${service.testKey}\r\n\r\n`);
  await closed;
  const [, response = ''] = text.split(/(?=HTTP\/1\.1 503)/);
  assert.match(response, /"code":"service_unavailable".*nothing was accepted/s);
  assert.match(response, /retry-after: \d+/i);
  assertFailure(await waiting, 503, 'service_unavailable', /the service is stopping/);
  assert.equal(await stopped, 0);
});
