/**
 * Shows what the server itself does with a request before and after a route: keys, types, sizes, errors, headers. The
 * app has stubs behind it; test/api has the operations.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { API_KEY_RANDOM_BYTES, makeApiKey } from '../accounts/keys/api-key.ts';
import { Overloaded } from '../core/refusals.ts';
import { AcceptedUnknown } from '../accept/store/lost-commits.ts';
import { DatabaseUnavailable } from '../database/database.ts';
import { SENT, stubHttp } from '../../test/support/http.ts';
import type { HttpServices } from './services.ts';

const EMAIL = { from: 'a@acme.com', to: 'jo@mail.org', subject: 'Hi', html: '<p>Hi</p>' };
const UUIDV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const http = await stubHttp();
after(() => http[Symbol.asyncDispose]());

type Failure = { code: string; message: string; request_id: string; details?: object[] };

async function failureOf(response: Response, status: number): Promise<Failure> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
  const body = JSON.parse(text) as { error: Failure };
  assert.deepEqual(Object.keys(body), ['error']);
  const { code, message, request_id, ...more } = body.error;
  assert.match(code, /^[a-z_]+$/);
  assert.match(message, /^[^\n<>]*[.?)]?$|API key/);
  assert.match(request_id, UUIDV7);
  assert.equal(response.headers.get('x-request-id'), request_id);
  assert.ok(Object.keys(more).every((name) => name === 'details'));
  return body.error;
}

async function withServices(
  services: Partial<HttpServices>,
  work: (http: Awaited<ReturnType<typeof stubHttp>>) => Promise<void>,
) {
  await using other = await stubHttp({ services });
  await work(other);
}

const get = (path: string, init: Init = {}) =>
  fetch(http.url + path, {
    ...init,
    headers: { authorization: `Bearer ${http.keys.full}`, ...init.headers },
  });

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string>; duplex?: 'half' };

test('an accepted email gets 202 with its id and the state of the limit', async () => {
  const response = await http.post('/v1/emails', EMAIL);
  assert.equal(response.status, 202);
  assert.deepEqual(await response.json(), SENT);
  assert.match(response.headers.get('x-request-id') ?? '', UUIDV7);
  const names = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'ratelimit-policy'];
  const values = [...names, 'limit', 'remaining', 'reset'].map((name) =>
    response.headers.get(name),
  );
  assert.deepEqual(values, ['100', '99', '60', '100;w=60', '100', '99', '60']);
});

test('an unknown path is 404 before the key is checked', async () => {
  assert.equal((await failureOf(await fetch(`${http.url}/v1/nothing`), 404)).code, 'not_found');
  await failureOf(await http.post('/v1/emails/x/events', '{"not json'), 405);
  await failureOf(await http.post('/nothing', '{"not json'), 404);
});

test('a known path with another method is 405 with Allow', async () => {
  const response = await fetch(`${http.url}/v1/emails`, { method: 'DELETE' });
  assert.equal((await failureOf(response, 405)).code, 'method_not_allowed');
  assert.equal(response.headers.get('allow'), 'GET, HEAD, POST');
  await failureOf(await fetch(`${http.url}/v1/emails/x`, { method: 'OPTIONS' }), 405);
});

test('duplicate slashes collapse', async () => {
  assert.equal((await http.post('//v1//emails', EMAIL)).status, 202);
});

test('unknown, revoked and mistyped keys are 401, each failure counted', async () => {
  await withServices({}, async ({ url }) => {
    const unknown = makeApiKey('live', randomBytes(API_KEY_RANDOM_BYTES));
    const messages = new Map<string, string>();
    for (const header of ['', 'Basic abc', 'Bearer', 'Bearer x', `Bearer ${unknown}`]) {
      const headers = header === '' ? {} : { authorization: header };
      const response = await fetch(`${url}/v1/emails`, { headers });
      const { code, message } = await failureOf(response, 401);
      assert.equal(code, 'authentication_error');
      assert.equal(response.headers.get('www-authenticate'), 'Bearer');
      messages.set(header, message);
    }
    assert.match(messages.get('') ?? '', /No API key was sent/);
    assert.match(messages.get(`Bearer ${unknown}`) ?? '', /^The API key is not valid/);
  });
});

test('after 20 failures a client gets 429, while a valid key still works', async () => {
  await withServices({}, async ({ url, post }) => {
    const statuses = [];
    for (let count = 0; count < 22; count += 1) {
      statuses.push((await fetch(`${url}/v1/emails`)).status);
    }
    assert.deepEqual(statuses, [...Array<number>(20).fill(401), 429, 429]);
    const response = await fetch(`${url}/v1/emails`);
    assert.equal((await failureOf(response, 429)).code, 'rate_limit_error');
    assert.equal(response.headers.get('retry-after'), '60');
    assert.equal(response.headers.get('remaining'), '0');
    assert.equal((await post('/v1/emails', EMAIL)).status, 202);
  });
});

test('the name of the scheme may be written in any case', async () => {
  const response = await get('/v1/projects', {
    headers: { authorization: `bearer  ${http.keys.full}` },
  });
  assert.equal(response.status, 200);
});

test('a sending-only key may send and read, and nothing else', async () => {
  const headers = { authorization: `Bearer ${http.keys.sending}` };
  assert.equal((await http.post('/v1/emails', EMAIL, headers)).status, 202);
  assert.equal((await get('/v1/emails', { headers })).status, 200);
  for (const path of ['/v1/domains', '/v1/projects', '/v1/api-keys', '/v1/webhooks']) {
    const { code } = await failureOf(await get(path, { headers }), 403);
    assert.equal(code, 'authorization_error', path);
  }
});

test('the key is checked before the body', async () => {
  const headers = { authorization: 'Bearer x', 'content-type': 'text/plain' };
  await failureOf(await http.post('/v1/emails', '{', headers), 401);
  await failureOf(
    await http.post('/v1/api-keys', '{', { authorization: `Bearer ${http.keys.sending}` }),
    403,
  );
});

test('bodies that are not JSON are 415 or 400', async () => {
  const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/xml', 'nonsense'];
  for (const type of types) {
    const response = await http.post('/v1/emails', 'a=b', { 'content-type': type });
    assert.equal((await failureOf(response, 415)).code, 'unsupported_media_type', type);
  }
  await failureOf(
    await http.post('/v1/emails', EMAIL, { 'content-type': 'application/json; charset=latin1' }),
    415,
  );
  const { code } = await failureOf(await http.post('/v1/emails', '{"from":'), 400);
  assert.equal(code, 'validation_error');
  const utf8 = { 'content-type': 'application/json; charset=UTF-8' };
  assert.equal((await http.post('/v1/emails', EMAIL, utf8)).status, 202);
});

test('an encoded body is 415, which names the encoding', async () => {
  for (const encoding of [
    'gzip',
    'x-gzip',
    'deflate',
    'br',
    'zstd',
    'GZIP',
    'gzip, br',
    'nonsense',
  ]) {
    const response = await http.post('/v1/emails', EMAIL, { 'content-encoding': encoding });
    assert.equal(response.headers.get('accept-encoding'), 'identity');
    const { code, message } = await failureOf(response, 415);
    assert.equal(code, 'unsupported_media_type');
    const named = encoding.toLowerCase();
    assert.match(message, new RegExp(`^The body has the Content-Encoding ${named}, which is not`));
  }
  for (const encoding of ['identity', 'Identity', '', 'identity, identity']) {
    const plain = await http.post('/v1/emails', EMAIL, { 'content-encoding': encoding });
    assert.equal(plain.status, 202, encoding);
  }
  const none = await get('/v1/emails', { headers: { 'content-encoding': 'gzip' } });
  assert.equal(none.status, 200);
});

test('a slash at the end of an API path is not part of it', async () => {
  for (const path of ['/v1/emails/', '/v1/emails//', '//v1//emails/', '/v1/emails/?']) {
    const response = await http.post(path, EMAIL);
    assert.equal(response.status, 202, path);
    assert.deepEqual(await response.json(), SENT);
  }
  const allowed = async (path: string, method: string) => {
    const response = await get(path, { method, redirect: 'manual' });
    return [response.status, response.headers.get('allow')];
  };
  for (const path of [
    '/v1/emails',
    '/emails',
    '/v1/suppressions/export',
    '/v1/nowhere',
    '/domains/x',
  ]) {
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      assert.deepEqual(await allowed(`${path}/`, method), await allowed(path, method), path);
    }
  }
  assert.deepEqual((await allowed('/openapi.json/', 'GET'))[0], 404);
  assert.deepEqual((await allowed('/v1/emails%2F', 'GET'))[0], 404);
});

test('a body over 45 MB is 413, with or without Content-Length', async () => {
  const body = Buffer.alloc(46 * 1024 * 1024, 'x');
  const { code } = await failureOf(await http.post('/v1/emails', body), 413);
  assert.equal(code, 'payload_too_large');
  const chunked = await get('/v1/emails', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: new Blob([body]).stream(),
    duplex: 'half',
  });
  await failureOf(chunked, 413);
});

test('a POST without body, with or without type, is a POST of {}', async () => {
  for (const headers of [{}, { 'content-type': 'application/json' }]) {
    const response = await get('/v1/emails', { method: 'POST', headers });
    const { message } = await failureOf(response, 422);
    assert.match(message, /^from: is required/);
  }
});

test('an unknown field is reported by name', async () => {
  const response = await http.post('/v1/emails', { ...EMAIL, reply_too: 'x@y.org' });
  const { message, details } = await failureOf(response, 422);
  assert.match(message, /^reply_too: is not a field of this request/);
  assert.equal(details?.length, 1);
});

test('types and contents are checked, and every problem is reported', async () => {
  const cases: [object, RegExp][] = [
    [{ ...EMAIL, to: ['a@b.co', 5] }, /^to\[1\]: must be a string, not a number$/],
    [{ ...EMAIL, to: ['a@b.co', 'b@c.co', 'bob@'] }, /^to\[2\]: "bob@" is not an email address/],
    [{ ...EMAIL, headers: { Bcc: 'x@y.org' } }, /^headers\.Bcc: /],
    [{ ...EMAIL, scheduled_at: '2030-01-01' }, /^scheduled_at: must be a time in ISO 8601/],
    [{ ...EMAIL, scheduled_at: 1893456000 }, /^scheduled_at: must be a string, not a number$/],
    [{ ...EMAIL, template: { id: 'x' } }, /^html: cannot be combined with a template/],
    [{ ...EMAIL, unsubscribe: 'http://acme.org' }, /^unsubscribe: /],
    [{ ...EMAIL, tracking: { opens: 'yes' } }, /^tracking\.opens: /],
    [
      { ...EMAIL, attachments: [{ filename: 'a', path: 'http://x.org/a' }] },
      /^attachments\[0\]\.path: the URL must start with https/,
    ],
  ];
  for (const [body, sentence] of cases) {
    const { code, message } = await failureOf(await http.post('/v1/emails', body), 422);
    assert.equal(code, 'validation_error');
    assert.match(message, sentence);
  }
});

test('null in an optional field counts as absent', async () => {
  const nothing = { cc: null, reply_to: null, text: null, headers: null, tags: null, tls: null };
  assert.equal((await http.post('/v1/emails', { ...EMAIL, ...nothing })).status, 202);
});

test('an Idempotency-Key is 1-256 printable ASCII characters', async () => {
  const keys: unknown[] = [];
  const accept: HttpServices['accept'] = async (_caller, _draft, idempotency) => {
    keys.push(idempotency);
    return {
      kind: 'repeated',
      body: JSON.stringify(SENT),
      limit: { limit: 1, remaining: 0, resetS: 1, windowS: 1 },
    };
  };
  await withServices({ accept }, async ({ post }) => {
    const response = await post('/v1/emails', EMAIL, { 'idempotency-key': 'order 42' });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('idempotent-replayed'), 'true');
    const reordered = { html: EMAIL.html, subject: EMAIL.subject, to: EMAIL.to, from: EMAIL.from };
    await post('/v1/emails', reordered, { 'idempotency-key': 'order 42' });
    assert.deepEqual(keys[0], keys[1]);
    await post('/v1/emails', { ...EMAIL, subject: 'Ho' }, { 'idempotency-key': 'order 42' });
    assert.notDeepEqual(keys[0], keys[2]);
    for (const key of ['', 'x'.repeat(257), 'caf\u00e9']) {
      const refused = await post('/v1/emails', EMAIL, { 'idempotency-key': key });
      assert.match((await failureOf(refused, 400)).message, /Idempotency-Key/);
    }
  });
});

test('a refusal has the HTTP status of its code', async () => {
  const limit = { limit: 100, remaining: 0, resetS: 42, windowS: 60 };
  const expected = {
    domain_not_verified: 403,
    suppressed: 422,
    idempotency_conflict: 409,
    rate_limit_error: 429,
    authentication_error: 401,
    service_unavailable: 503,
  } as const;
  for (const [refused, status] of Object.entries(expected)) {
    const accept: HttpServices['accept'] = async () => ({
      kind: 'refused',
      refused: refused as keyof typeof expected,
      message: 'No.',
      limit,
    });
    await withServices({ accept }, async ({ post }) => {
      const response = await post('/v1/emails', EMAIL);
      assert.equal((await failureOf(response, status)).code, refused);
      assert.equal(response.headers.get('remaining'), '0');
      if (status === 429) assert.equal(response.headers.get('retry-after'), '42');
    });
  }
});

test('an error of a limited endpoint has the state of the limit', async () => {
  const response = await http.post('/v1/emails', {});
  assert.equal(response.status, 422);
  assert.equal(response.headers.get('ratelimit-limit'), '100');
  assert.equal(response.headers.get('remaining'), '100');
});

function busy(code: string): DatabaseUnavailable {
  const cause = Object.assign(new Error('no'), { code });
  return new DatabaseUnavailable('refused', { cause, isUndone: true });
}

test('503 says whether something may have been accepted, and has Retry-After', async () => {
  const cases: [Error, RegExp][] = [
    [new Overloaded('the disk is full'), /^Nothing was accepted: the disk is full;/],
    [new DatabaseUnavailable('no database'), /cannot be reached; nothing was accepted/],
    [busy('55P03'), /because another change was in progress; nothing was accepted/],
    [busy('53300'), /because it lacks space, memory or connections; nothing was accepted/],
    [new AcceptedUnknown('lost'), /may have been accepted.*same Idempotency-Key/],
  ];
  for (const [error, sentence] of cases) {
    const accept = () => Promise.reject(error);
    await withServices({ accept }, async ({ post }) => {
      const response = await post('/v1/emails', EMAIL);
      const { code, message } = await failureOf(response, 503);
      assert.equal(code, 'service_unavailable');
      assert.match(message, sentence);
      assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
    });
  }
});

test('without the database every request gets 503 in JSON, and health is unaffected', async () => {
  const query = () => Promise.reject(new DatabaseUnavailable('no database'));
  const db = {
    query,
    checking: { query },
    readsOf: () => ({ query }),
  } as unknown as HttpServices['db'];
  const unready = () => [
    { code: 'database_unavailable', reason: 'the database does not answer' } as const,
  ];
  let failures = 0;
  const onDatabaseFailure = () => void (failures += 1);
  await withServices({ db, unready, onDatabaseFailure }, async ({ url, post }) => {
    const { message } = await failureOf(await post('/v1/emails', EMAIL), 503);
    assert.match(message, /nothing was accepted/);
    await failureOf(await fetch(`${url}/v1/emails`), 503);
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    const answer = await fetch(`${url}/readyz`);
    assert.equal(answer.status, 503);
    const { error, ...rest } = (await answer.json()) as { error: Failure };
    assert.equal(error.message, 'No mail is accepted: the database does not answer.');
    assert.deepEqual(rest, {
      status: 'unready',
      reasons: [
        {
          code: 'database_unavailable',
          message:
            'The database does not answer; check that it runs and that this machine reaches it.',
        },
      ],
    });
  });
  assert.equal(failures, 2, 'each failed request has the database looked at');
});

test('a stopping service refuses requests and closes connections', async () => {
  const unready = () => [{ code: 'shutting_down', reason: 'the service is stopping' } as const];
  await withServices({ isStopping: () => true, unready }, async ({ url, post }) => {
    const response = await post('/v1/emails', EMAIL);
    await failureOf(response, 503);
    assert.equal(response.headers.get('connection'), 'close');
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    assert.equal((await fetch(`${url}/readyz`)).status, 503);
  });
});

test('an internal error is 500 without details in the response, and in the log without data', async () => {
  const accept = () => Promise.reject(new Error('secret@customer.org'));
  await withServices({ accept }, async (other) => {
    const response = await other.post('/v1/emails', EMAIL);
    const { code, message, request_id } = await failureOf(response, 500);
    assert.equal(code, 'internal_error');
    assert.doesNotMatch(message, /secret/);
    const line = other.log.find((entry) => entry['msg'] === 'bug');
    assert.equal(line?.['request_id'], request_id);
    assert.doesNotMatch(JSON.stringify(other.log), /secret/);
  });
});

test('one line per request is logged: ids and numbers, no addresses, no keys', async () => {
  await withServices({}, async (other) => {
    const response = await other.post('/v1/emails?to=jo@mail.org', EMAIL);
    const line = other.log.find((entry) => entry['msg'] === 'request');
    assert.equal(line?.['request_id'], response.headers.get('x-request-id'));
    assert.equal(line['route'], '/v1/emails');
    // An unknown parameter is refused, and not logged either.
    assert.equal(line['status'], 422);
    assert.ok(typeof line['duration_ms'] === 'number' && typeof line['project_id'] === 'string');
    assert.doesNotMatch(JSON.stringify(other.log), /mail\.org|acme\.com|lh_test_/);
  });
});

test('X-Forwarded-For counts only from a trusted proxy', async () => {
  const clients: unknown[] = [];
  const query = async (_statement: unknown, values: unknown[]) => {
    clients.push(values[0]);
    return [{ max: 20, used: 1, window_s: 60, reset_s: 60 }];
  };
  const db = { query, checking: { query } } as unknown as HttpServices['db'];
  const headers = { 'x-forwarded-for': '2001:db8::7' };
  for (const trustedProxies of [[], ['127.0.0.1']]) {
    const limits = { auth: { max: 20, windowS: 60 } };
    const retention = { contentH: null, metadataH: null };
    const config = { retention, metricsToken: null, trustedProxies, limits };
    await withServices(
      { db, config: config as unknown as HttpServices['config'] },
      async ({ url }) => {
        await failureOf(await fetch(`${url}/v1/emails`, { headers }), 401);
      },
    );
  }
  assert.deepEqual(clients, ['127.0.0.1', '2001:db8:0:0::/64']);
});

test('invalid ids and malformed paths are ordinary errors', async () => {
  await failureOf(await get('/v1/emails/not-an-id'), 404);
  await failureOf(await get(`/v1/emails/${'x'.repeat(2_100)}`), 414);
  await failureOf(await get('/v1/emails/%zz'), 400);
  await failureOf(await get(`/v1/emails?subject=${'x'.repeat(9_000)}`), 414);
});

test('lists refuse invalid cursors and filters by name', async () => {
  const id = SENT.id;
  const cases: [string, RegExp][] = [
    ['limit=0', /^limit: must be at least 1/],
    ['limit=101', /^limit: must be at most 100/],
    ['limit=x', /^limit: /],
    ['after=x', /^after: must be an id/],
    [`after=${id}&before=${id}`, /^before: cannot be used together/],
    ['staus=sent', /^staus: is not a query parameter/],
    ['status=gone', /^status: must be one of/],
    ['to=bob', /^to: is not an email address/],
    ['domain=-', /^domain: is not a domain name/],
    ['tag=a:b:c', /^tag: is not a tag/],
    ['created_after=yesterday', /^created_after: must be a time/],
  ];
  for (const [query, sentence] of cases) {
    const { message } = await failureOf(await get(`/v1/emails?${query}`), 422);
    assert.match(message, sentence);
  }
});

test('HEAD responds like GET without a body', async () => {
  const response = await fetch(`${http.url}/healthz`, { method: 'HEAD' });
  assert.equal(response.status, 200);
  assert.equal(await response.text(), '');
});

test('the OpenAPI document needs no key', async () => {
  const document = (await (await fetch(`${http.url}/openapi.json`)).json()) as { openapi: string };
  assert.match(document.openapi, /^3\.1/);
});
