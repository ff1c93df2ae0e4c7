/** Idempotency: any number of repetitions of a key makes one email. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { assertFailure, EMAIL } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const service = await startService({
  env: { LETTERHAUS_LIMIT_SENDING: '1000/60' },
  args: ['--workers', '2'],
});
after(() => service[Symbol.asyncDispose]());

const PARALLEL = 50;

/** Sends with a key; `body` as text goes out as it is. */
const post = (key: string, body: unknown = EMAIL, apiKey = service.testKey) =>
  service.request('POST', '/v1/emails', {
    key: apiKey,
    body,
    headers: { 'idempotency-key': key },
  });

const statuses = (responses: ApiResponse[]) => {
  const counts: Record<number, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

const count = async (where = 'true', values: unknown[] = []) =>
  (await service.sql(`select count(*)::int as n from emails where ${where}`, values))[0].n;

const advanceDay = () => service.clock.advance({ hours: 24 });

test('a repetition with the same key and body gets the first result byte for byte, with 200', async () => {
  const key = randomUUID();
  const before = await count();
  const first = await post(key);
  assert.equal(first.status, 202);
  assert.equal(first.headers.get('idempotent-replayed'), null);
  await service.waitForStatus(first.body.id, 'delivered');
  for (let repeat = 0; repeat < 3; repeat += 1) {
    const again = await post(key);
    assert.equal(again.status, 200);
    assert.equal(again.text, first.text);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(again.headers.get('content-type'), first.headers.get('content-type'));
  }
  assert.equal(await count(), before + 1);
  const { recipients } = await service.email(first.body.id);
  assert.equal(recipients[0].attempts, 1);
});

test('bodies are compared by value, not by formatting', async () => {
  const key = randomUUID();
  const first = await post(key, { ...EMAIL, metadata: { a: '1', b: 'ü' } });
  const { from, to, subject, html } = EMAIL;
  const rewritten =
    `{ "metadata": {"b": "\\u00fc", "a": "1"},\n "html": ${JSON.stringify(html)}, ` +
    `"subject": "H\\u0065llo", "to": "${to}", "from": ${JSON.stringify(from)} }`;
  assert.equal(subject, 'Hello');
  const again = await post(key, rewritten);
  assert.equal(again.status, 200, again.text);
  assert.equal(again.text, first.text);
});

test('the same key with another body is 409 and sends nothing', async () => {
  const key = randomUUID();
  const first = await post(key);
  const before = await count();
  for (const other of [
    { ...EMAIL, subject: 'Hello ' },
    { ...EMAIL, to: [EMAIL.to] },
    { ...EMAIL, to: 'Delivered@simulator.test' },
    { ...EMAIL, metadata: {} },
    { ...EMAIL, from: 'a@unverified.test' },
  ]) {
    assertFailure(await post(key, other), 409, 'idempotency_conflict', /Idempotency-Key/);
  }
  assert.equal(await count(), before);
  const again = await post(key);
  assert.deepEqual([again.status, again.text], [200, first.text]);
});

test('keys are 1 to 256 printable ASCII characters, all of which count', async () => {
  const keys = [
    'a',
    'A',
    'a b',
    '~!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}',
    'x'.repeat(256),
    'x'.repeat(255),
  ];
  for (const key of keys) assert.equal((await post(key)).status, 202, key);
  for (const key of keys) assert.equal((await post(key)).status, 200, key);
});

test('fifty concurrent requests with one key make one email', async () => {
  const key = randomUUID();
  const before = await count();
  const responses = await Promise.all(Array.from({ length: PARALLEL }, () => post(key)));
  assert.deepEqual(statuses(responses), { 202: 1, 200: PARALLEL - 1 });
  assert.equal(new Set(responses.map(({ text }) => text)).size, 1);
  assert.equal(await count(), before + 1);
});

test('concurrent repetitions of many keys make one email for each key', async () => {
  const keys = Array.from({ length: 20 }, () => randomUUID());
  const before = await count();
  const posts = [0, 1, 2, 3, 4].flatMap(() => keys.map((key) => post(key)));
  assert.deepEqual(statuses(await Promise.all(posts)), { 202: 20, 200: 80 });
  assert.equal(await count(), before + 20);
});

test('of fifty concurrent requests with one key and different bodies, one is accepted', async () => {
  const key = randomUUID();
  const before = await count();
  const posts = Array.from({ length: PARALLEL }, (_, n) =>
    post(key, { ...EMAIL, subject: `Hello ${n}` }),
  );
  assert.deepEqual(statuses(await Promise.all(posts)), { 202: 1, 409: PARALLEL - 1 });
  assert.equal(await count(), before + 1);
});

test('fifty concurrent requests with one key and one email left in the limit make one email and no 429', async (t) => {
  const setLimit = (limit: string) =>
    service.cliJson('projects', 'set-limit', limit, '--environment', 'test');
  await service.clock.advance({ seconds: 61 });
  await setLimit('3/60');
  t.after(() => setLimit('default'));
  const before = await count();
  await service.send();
  await service.send();
  const headers = { 'idempotency-key': 'last slot' };
  const send = (more: object) => service.request('POST', '/v1/emails', { body: EMAIL, ...more });
  const responses = await Promise.all(Array.from({ length: PARALLEL }, () => send({ headers })));
  assert.deepEqual(statuses(responses), { 202: 1, 200: PARALLEL - 1 });
  assertFailure(await send({}), 429, 'rate_limit_error');
  assert.equal((await send({ headers })).status, 200);
  assert.equal(await count(), before + 3);
});

test('a failed request does not use up its key', async () => {
  const key = randomUUID();
  assertFailure(await post(key, '{'), 400, 'validation_error');
  assertFailure(await post(key, { ...EMAIL, to: 'nobody' }), 422, 'validation_error');
  assertFailure(await post(key, { ...EMAIL, from: 'a@other.test' }), 403, 'domain_not_verified');
  const gone = 'gone@idempotency.test';
  await service.request('POST', '/v1/suppressions', { body: { address: gone } });
  assertFailure(await post(key, { ...EMAIL, to: gone }), 422, 'suppressed');
  assert.equal((await post(key)).status, 202);
});

test('a key is remembered for 24 hours', async () => {
  const key = randomUUID();
  const first = await post(key);
  await service.clock.advance({ hours: 23, minutes: 59 });
  assert.equal((await post(key)).text, first.text);
  await service.clock.advance({ minutes: 2 });
  const later = await post(key, { ...EMAIL, subject: 'Another day' });
  assert.equal(later.status, 202, later.text);
  assert.notEqual(later.body.id, first.body.id);
  assert.equal((await post(key, { ...EMAIL, subject: 'Another day' })).status, 200);
});

test('fifty concurrent requests with an expired key make one email', async () => {
  const key = randomUUID();
  await post(key);
  await advanceDay();
  const responses = await Promise.all(Array.from({ length: PARALLEL }, () => post(key)));
  assert.deepEqual(statuses(responses), { 202: 1, 200: PARALLEL - 1 });
});

test('each environment and project has its own idempotency keys', async () => {
  const key = randomUUID();
  const live = await service.liveKey();
  await service.addLiveDomain('acme.example');
  await service.cliJson('projects', 'create', 'Other');
  const other = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  const { body: domain } = await service.request('POST', '/v1/domains', {
    key: other.key,
    body: { name: 'acme.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`, { key: other.key });
  const responses = [
    await post(key),
    await post(key, { ...EMAIL, from: 'a@acme.example', to: 'jo@acme.io' }, live),
    await post(key, EMAIL, other.key),
  ];
  assert.deepEqual(statuses(responses), { 202: 3 });
});

test('API keys of one project and environment share idempotency keys', async () => {
  const { body: second } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'second' },
  });
  const key = randomUUID();
  const first = await post(key);
  const again = await post(key, EMAIL, second.key);
  assert.deepEqual([again.status, again.text], [200, first.text]);
});
