/** The checks that every request passes, in their order. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { assertFailure, EMAIL, rawResponse, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { type RequestOptions, startService } from '../support/service.ts';
import { sharedService } from '../support/shared-service.ts';
import { MIB } from '../../src/lib/units.ts';

const service = await sharedService();
const sendingKey = await makeKey({ permission: 'sending_access' });

async function makeKey(rights: object): Promise<string> {
  const body = { name: 'made by a test', ...rights };
  const response = await service.request('POST', '/v1/api-keys', { body });
  assert.equal(response.status, 201, response.text);
  return response.body.key;
}

const post = (body: unknown, options: RequestOptions = {}) =>
  service.request('POST', '/v1/emails', { body, ...options });

const headLines = (method: string, path: string, ...more: string[]) =>
  [
    `${method} ${path} HTTP/1.1`,
    'Host: letterhaus',
    'Connection: close',
    `Authorization: Bearer ${service.testKey}`,
    ...more,
    '\r\n',
  ].join('\r\n');

/** An email, but for an unknown field that makes it so many levels deep. */
const nested = (levels: number) =>
  JSON.stringify(EMAIL).replace(/}$/, `,"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`);

test('every response has a unique id, which is also in its error', async () => {
  const responses = [
    await post(EMAIL),
    await post({}),
    await service.request('GET', '/v1/emails'),
    await service.request('GET', '/v1/emails', { key: null }),
    await service.request('GET', '/healthz', { key: null }),
    await service.request('GET', '/openapi.json', { key: null }),
    await service.request('GET', '/nowhere'),
    await rawResponse(service.url, 'nonsense\r\n\r\n'),
  ];
  const ids = responses.map((response) => response.headers.get('x-request-id') ?? '');
  for (const id of ids) assert.match(id, UUID_V7);
  assert.equal(new Set(ids).size, ids.length);
  const failed = responses.filter((response) => response.body?.error !== undefined);
  assert.equal(failed.length, 4);
  for (const { body, headers } of failed) {
    assert.equal(body.error.request_id, headers.get('x-request-id'));
  }
});

test('responses are JSON in UTF-8, ids sort by creation, times are UTC with milliseconds', async () => {
  const subject = 'Grüße aus Köln 🎉';
  const sent = [await post({ ...EMAIL, subject }), await post(EMAIL), await post(EMAIL)];
  const ids = sent.map(({ body }) => body.id as string);
  for (const { headers, body } of sent) {
    assert.match(headers.get('content-type') ?? '', /^application\/json; ?charset=utf-8$/i);
    assert.match(body.id, UUID_V7);
    assert.match(body.created_at, TIME);
  }
  assert.deepEqual(ids, ids.toSorted());
  assert.equal((await service.email(ids[0]!)).subject, subject);
});

test('a POST of JSON without a body is a POST of {}', async () => {
  const headers = { 'content-type': 'application/json' };
  const empty = await service.request('POST', '/v1/emails', { headers, body: '' });
  assertFailure(empty, 422, 'validation_error', /from.*required/);
  const { body } = await service.request('GET', '/v1/domains');
  const verify = `/v1/domains/${body.data[0].id}/verify`;
  assert.equal((await service.request('POST', verify, { headers })).status, 200);
  assert.equal((await service.request('POST', verify)).status, 200);
});

test('any body of a GET is ignored', async () => {
  for (const [type, body] of [
    ['application/json', '{"limit": 1'],
    ['text/plain', 'hello'],
    ['application/json', 'x'.repeat(100_000)],
  ]) {
    const head = headLines(
      'GET',
      '/v1/projects',
      `Content-Type: ${type}`,
      `Content-Length: ${body!.length}`,
    );
    const response = await rawResponse(service.url, head + body);
    assert.equal(response.status, 200, response.text);
    assert.equal(response.body.object, 'list');
  }
});

test('an unknown field is refused by name, on every endpoint and at every depth', async () => {
  const cases: [string, string, object, RegExp][] = [
    ['POST', '/v1/emails', { ...EMAIL, 'reply-to': 'a@b.example' }, /^reply-to\b/],
    ['POST', '/v1/emails', { ...EMAIL, replyTo: 'a@b.example' }, /^replyTo\b/],
    [
      'POST',
      '/v1/emails',
      { ...EMAIL, tags: [{ name: 'a', value: 'b', nam: 'c' }] },
      /^tags\[0\]\.nam\b/,
    ],
    [
      'POST',
      '/v1/emails',
      { ...EMAIL, attachments: [{ filename: 'a', content: '', contents: '' }] },
      /^attachments\[0\]\.contents\b/,
    ],
    ['POST', '/v1/domains', { name: 'fields.test', region: 'eu' }, /^region\b/],
    ['POST', '/v1/webhooks', { url: 'https://acme.com/', event: [] }, /^event\b/],
    ['POST', '/v1/api-keys', { name: 'key', permissions: 'sending_access' }, /^permissions\b/],
  ];
  for (const [method, path, body, message] of cases) {
    const response = await service.request(method, path, { body });
    assertFailure(response, 422, 'validation_error', message);
  }
  const { data } = (await service.request('GET', '/v1/domains')).body;
  assert.ok(!data.some(({ name }: { name: string }) => name === 'fields.test'));
});

test('duplicate slashes collapse', async () => {
  assert.equal((await service.request('GET', '//v1//emails')).status, 200);
  assert.equal((await service.request('POST', '/v1///emails', { body: EMAIL })).status, 202);
  const id = await service.send();
  assert.equal((await service.request('GET', `///v1/emails//${id}`)).body.id, id);
});

test('a message over 30 MB is 422, a body over 45 MB is 413', async () => {
  const attachment = (sizeBytes: number) => ({
    filename: 'large.bin',
    content: Buffer.alloc(sizeBytes, 'a').toString('base64'),
  });
  const large = await post({ ...EMAIL, attachments: [attachment(23 * MIB)] });
  assertFailure(large, 422, 'validation_error', /30 MB/);
  const tooLarge = await post({ ...EMAIL, html: 'x'.repeat(45 * MIB) });
  assertFailure(tooLarge, 413, 'payload_too_large', /45 MB/);
  const good = await post({ ...EMAIL, attachments: [attachment(20 * MIB)] });
  assert.equal(good.status, 202, good.text);
});

test('an encoded body is 415', async () => {
  for (const encoding of ['gzip', 'br', 'deflate']) {
    const response = await post(EMAIL, { headers: { 'content-encoding': encoding } });
    assertFailure(response, 415, 'unsupported_media_type');
  }
});

test('JSON may be 32 levels deep and not 33', async () => {
  assertFailure(await post(nested(32)), 422, 'validation_error', /^x\b/);
  assertFailure(await post(nested(33)), 422, 'validation_error', /32 levels/);
  assertFailure(await post('['.repeat(1_000_000)), 422, 'validation_error', /32 levels/);
  assertFailure(await post('[{"a":'.repeat(300_000)), 422, 'validation_error', /32 levels/);
});

test('a NUL is refused in every field', async () => {
  const nul = '\0';
  for (const body of [
    { ...EMAIL, html: `a${nul}b` },
    { ...EMAIL, text: nul },
    { ...EMAIL, subject: `a${nul}` },
    { ...EMAIL, to: `a${nul}@simulator.test` },
    { ...EMAIL, metadata: { [`a${nul}`]: 'b' } },
    { ...EMAIL, metadata: { a: nul } },
    { ...EMAIL, headers: { 'X-A': nul } },
    { ...EMAIL, attachments: [{ filename: nul, content: '' }] },
    { ...EMAIL, [nul]: 1 },
  ]) {
    assertFailure(await post(body), 422, 'validation_error');
  }
  for (const path of ['/v1/domains', '/v1/webhooks', '/v1/api-keys']) {
    const body = { name: `a${nul}b.test`, url: `https://acme.com/${nul}` };
    assertFailure(await service.request('POST', path, { body }), 422, 'validation_error');
  }
  for (const filter of ['subject', 'to', 'from', 'tag', 'domain', 'status']) {
    const response = await service.request('GET', `/v1/emails?${filter}=a%00b`);
    assertFailure(response, 422, 'validation_error', new RegExp(`^${filter}\\b`));
  }
  assertFailure(await service.request('GET', '/v1/emails/%00'), 404, 'not_found');
});

test('route and method are checked before the key', async () => {
  const wrong = { key: 'nonsense', body: '{', headers: { 'content-type': 'text/plain' } };
  assertFailure(await service.request('POST', '/v1/nothing', wrong), 404, 'not_found');
  assertFailure(await service.request('PUT', '/v1/emails', wrong), 405, 'method_not_allowed');
});

test('the key is checked before the permission, and both before the body', async () => {
  const wrong = { body: '{', headers: { 'content-type': 'text/plain' } };
  const noKey = await service.request('POST', '/v1/domains', { ...wrong, key: null });
  assertFailure(noKey, 401, 'authentication_error');
  const sending = await service.request('POST', '/v1/domains', { ...wrong, key: sendingKey });
  assertFailure(sending, 403, 'authorization_error');
  const large = await service.request('POST', '/v1/domains', {
    key: sendingKey,
    body: 'x'.repeat(46 * MIB),
  });
  assertFailure(large, 403, 'authorization_error');
});

test('size and type are checked before JSON, and JSON before the schema', async () => {
  const typed = await post('{', { headers: { 'content-type': 'text/plain' } });
  assertFailure(typed, 415, 'unsupported_media_type');
  assertFailure(await post('{'.repeat(46 * MIB)), 413, 'payload_too_large');
  assertFailure(await post('{"subjekt": 1'), 400, 'validation_error', /JSON/);
});

test('the schema is checked before the idempotency key, and that before the domain', async () => {
  const headers = { 'idempotency-key': randomUUID() };
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'order.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  const email = { ...EMAIL, from: 'a@order.test' };
  assert.equal((await post(email, { headers })).status, 202);
  await service.request('DELETE', `/v1/domains/${domain.id}`);
  assertFailure(await post({ ...email, subject: 7 }, { headers }), 422, 'validation_error');
  assert.equal((await post(email, { headers })).status, 200);
  const other = await post({ ...email, subject: 'Other' }, { headers });
  assertFailure(other, 409, 'idempotency_conflict');
  assertFailure(await post(email), 403, 'domain_not_verified');
});

test('the domain is checked before suppressions, and these before the limit', async () => {
  await using small = await startService({
    args: ['--workers', '1'],
    env: { LETTERHAUS_LIMIT_SENDING: '2/60' },
  });
  const send = (change: object, headers = {}) =>
    small.request('POST', '/v1/emails', { body: { ...EMAIL, ...change }, headers });
  const key = { 'idempotency-key': 'once' };
  const gone = { to: 'gone@requests.test' };
  const { body } = await send(gone, key);
  await small.request('POST', '/v1/suppressions', { body: { address: gone.to } });
  assertFailure(await send({ ...gone, from: 'a@other.test' }), 403, 'domain_not_verified');
  assert.equal((await send({})).status, 202);
  assertFailure(await send({}), 429, 'rate_limit_error');
  assertFailure(await send({ from: 'a@other.test' }), 403, 'domain_not_verified');
  assertFailure(await send(gone), 422, 'suppressed');
  const repetition = await send(gone, key);
  assert.deepEqual([repetition.status, repetition.body], [200, body]);
});

test('a request that fails early does not count to the limit', async () => {
  // Its window begins with its first email.
  const project = await service.otherProject();
  await project.addTestDomain('acme.test');
  const ask = (body: unknown, options: RequestOptions = {}) =>
    project.request('POST', '/v1/emails', { body, ...options });
  const before = Number((await ask(EMAIL)).headers.get('remaining'));
  const headers = { 'idempotency-key': randomUUID() };
  const failing: [unknown, RequestOptions?][] = [
    ['{', { headers }],
    ['a', { headers: { ...headers, 'content-type': 'text/plain' } }],
    [{ ...EMAIL, to: 'nobody' }, { headers }],
    [{ ...EMAIL, from: 'a@unverified.test' }, { headers }],
    [EMAIL, { headers, key: null }],
  ];
  for (const [body, options] of failing) assert.ok((await ask(body, options)).status >= 400);
  const accepted = await ask(EMAIL, { headers });
  assert.equal(accepted.status, 202, accepted.text);
  assert.equal(Number(accepted.headers.get('remaining')), before - 1);
});

test('an invalid id gets the same 404 as an unknown one', async () => {
  for (const id of ['x', UNKNOWN_ID, UNKNOWN_ID.toUpperCase(), '1', '..%2f..', '%F0%9F%8E%89']) {
    for (const path of [`/v1/emails/${id}`, `/v1/emails/${id}/events`, `/v1/domains/${id}`]) {
      assertFailure(await service.request('GET', path), 404, 'not_found');
    }
  }
});
