/** POST /v1/emails/batch: up to 100 emails in one request, stored all or none unless the request is permissive. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { assertFailure, EMAIL, UUID_V7 } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();
await service.cliJson('projects', 'set-limit', '1000/60');

type Options = { key?: string; headers?: Record<string, string> };

const post = (body: unknown, options: Options = {}, on = service) =>
  on.request('POST', '/v1/emails/batch', { key: on.testKey, body, ...options });

const PERMISSIVE = { headers: { 'x-batch-validation': 'permissive' } };

/** Emails with different subjects. */
const emails = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ ...EMAIL, subject: `Hello ${n}` }));

const count = (on = service) => on.countRows('emails');

const subjectsOf = (response: ApiResponse): Promise<string[]> =>
  Promise.all(
    response.body.data.map(async ({ id }: { id: string }) => (await service.email(id)).subject),
  );

test('a batch is accepted with 202, one id for each email in its order, and all are delivered', async () => {
  const response = await post(emails(3));
  assert.equal(response.status, 202, response.text);
  assert.deepEqual(Object.keys(response.body), ['data', 'errors']);
  assert.deepEqual(response.body.errors, []);
  for (const item of response.body.data) {
    assert.deepEqual(Object.keys(item), ['id']);
    assert.match(item.id, UUID_V7);
    await service.waitForStatus(item.id, 'delivered');
  }
  assert.deepEqual(await subjectsOf(response), ['Hello 0', 'Hello 1', 'Hello 2']);
  assert.equal(response.headers.get('ratelimit-remaining'), '997');
});

test('a batch has 1 to 100 emails', async () => {
  assert.equal((await post(emails(1))).body.data.length, 1);
  const full = await post(emails(100));
  assert.equal(full.status, 202, full.text);
  assert.equal(new Set(full.body.data.map(({ id }: { id: string }) => id)).size, 100);
  const before = await count();
  for (const headers of [{}, PERMISSIVE.headers]) {
    assertFailure(await post([], { headers }), 422, 'validation_error', /at least 1 item/);
    assertFailure(await post(emails(101), { headers }), 422, 'validation_error', /at most 100/);
    assertFailure(await post(EMAIL, { headers }), 422, 'validation_error', /must be an array/);
  }
  assert.equal(await count(), before);
});

test('the validation of a batch is strict or permissive', async () => {
  const headers = { 'x-batch-validation': 'lenient' };
  assertFailure(await post(emails(1), { headers }), 400, 'validation_error', /X-Batch-Validation/);
  const strict = { headers: { 'x-batch-validation': 'strict' } };
  assertFailure(await post([...emails(1), {}], strict), 422, 'validation_error', /^\[1\]/);
});

test('a strict batch with a problem sends nothing and reports every problem with the index of its email', async () => {
  const before = await count();
  const [good] = emails(1);
  const response = await post([
    good,
    { ...EMAIL, to: ['jo@acme.test', 'bob@'] },
    { ...EMAIL, subjet: 'Hello' },
    'email',
    { ...EMAIL, html: undefined },
  ]);
  assertFailure(response, 422, 'validation_error', /^\[1\]\.to\[1\]: "bob@".*3 more problems/);
  assert.deepEqual(
    response.body.error.details.map(({ field }: { field: string }) => field),
    ['[1].to[1]', '[2].subjet', '[3]', '[4].html'],
  );
  const foreign = { ...EMAIL, from: 'a@unverified.test' };
  assertFailure(
    await post([good, good, foreign]),
    403,
    'domain_not_verified',
    /^\[2\]: unverified\.test is not a verified domain/,
  );
  assert.equal(await count(), before);
});

test('a permissive batch sends the valid emails, and has a code and a message for each other one', async () => {
  const [first, second] = emails(2);
  const response = await post(
    [{ ...EMAIL, to: 'bob@' }, first, { ...EMAIL, from: 'a@unverified.test' }, second, null],
    PERMISSIVE,
  );
  assert.equal(response.status, 202, response.text);
  assert.deepEqual(await subjectsOf(response), ['Hello 0', 'Hello 1']);
  const { errors } = response.body;
  for (const error of errors) assert.deepEqual(Object.keys(error), ['index', 'code', 'message']);
  assert.deepEqual(
    errors.map(({ index, code }: { index: number; code: string }) => [index, code]),
    [
      [0, 'validation_error'],
      [2, 'domain_not_verified'],
      [4, 'validation_error'],
    ],
  );
  assert.match(errors[0].message, /^to: "bob@" is not an email address/);
  assert.match(errors[1].message, /^unverified\.test is not/);
  assert.match(errors[2].message, /^The item must be an object, not null\.$/);
});

test('a permissive batch without a valid email has no data', async () => {
  const before = await count();
  const response = await post([{ ...EMAIL, to: 'bob@' }, {}], PERMISSIVE);
  assert.deepEqual(
    [response.status, response.body.data.length, response.body.errors.length],
    [202, 0, 2],
  );
  assert.ok(response.headers.has('ratelimit-remaining'));
  assert.equal(await count(), before);
});

test('one suppressed recipient refuses a strict batch, but not a permissive one', async () => {
  const address = 'gone+batch@list.test';
  const added = await service.request('POST', '/v1/suppressions', { body: { address } });
  assert.equal(added.status, 201, added.text);
  const batch = emails(100).map((email, n) => (n === 41 ? { ...email, to: address } : email));
  const before = await count();
  assertFailure(await post(batch), 422, 'suppressed', /^\[41\]: Every recipient is/);
  assert.equal(await count(), before);
  const response = await post(batch, PERMISSIVE);
  assert.equal(response.body.data.length, 99);
  const [{ index, code }] = response.body.errors;
  assert.deepEqual([index, code, response.body.errors.length], [41, 'suppressed', 1]);
  assert.equal(await count(), before + 99);
});

test('attachments, copies and tags of each email are its own', async () => {
  const content = (n: number) => Buffer.from(`attachment ${n}`).toString('base64');
  const batch = emails(3).map((email, n) => ({
    ...email,
    cc: `copy${n}@simulator.test`,
    tags: [{ name: 'n', value: String(n) }],
    attachments: [{ filename: `${n}.txt`, content: content(n) }],
  }));
  const response = await post(batch);
  assert.equal(response.status, 202, response.text);
  for (const [n, { id }] of response.body.data.entries()) {
    const email = await service.email(id);
    assert.deepEqual([email.cc, email.tags], [[batch[n]?.cc], batch[n]?.tags]);
    const bytes = await service.request('GET', `/v1/emails/${id}/content`);
    assert.ok(bytes.text.includes(content(n)) && bytes.text.includes(`${n}.txt`));
  }
});

test('emails of one batch can be scheduled separately', async () => {
  const days = (n: number) => new Date(Date.now() + n * 86_400_000).toISOString();
  const later = { ...EMAIL, scheduled_at: days(2) };
  const response = await post([EMAIL, later]);
  assert.equal(response.status, 202, response.text);
  const [now, then] = response.body.data;
  await service.waitForStatus(now.id, 'delivered');
  assert.equal((await service.email(then.id)).status, 'scheduled');
  const tooLate = { ...EMAIL, scheduled_at: days(32) };
  assertFailure(await post([later, tooLate]), 422, 'validation_error', /^\[1\]\.scheduled_at: /);
  const permissive = await post([tooLate, EMAIL], PERMISSIVE);
  assert.equal(permissive.body.data.length, 1);
  const [{ index, code, message }] = permissive.body.errors;
  assert.deepEqual([index, code], [0, 'validation_error']);
  assert.match(message, /^scheduled_at: /);
});

test('an Idempotency-Key holds for the whole batch, and a repetition gets the first response byte for byte', async () => {
  const before = await count();
  for (const more of [{}, PERMISSIVE.headers]) {
    const headers = { 'idempotency-key': randomUUID(), ...more };
    const batch = [
      ...emails(5),
      ...('x-batch-validation' in more ? [{ ...EMAIL, to: 'bob@' }] : []),
    ];
    const first = await post(batch, { headers });
    assert.equal(first.status, 202, first.text);
    for (const name of ['first', 'second']) {
      const again = await post(batch, { headers });
      assert.deepEqual([again.status, again.text], [200, first.text], name);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
    }
    const other = await post(batch.slice(1), { headers });
    assertFailure(other, 409, 'idempotency_conflict', /another body/);
    const { 'idempotency-key': key } = headers;
    const single = { key: service.testKey, body: EMAIL, headers: { 'idempotency-key': key } };
    assertFailure(
      await service.request('POST', '/v1/emails', single),
      409,
      'idempotency_conflict',
      /Idempotency-Key/,
    );
  }
  assert.equal(await count(), before + 10);
});

test('thirty concurrent requests with one key make one batch', async () => {
  const before = await count();
  const headers = { 'idempotency-key': randomUUID() };
  const responses = await Promise.all(
    Array.from({ length: 30 }, () => post(emails(20), { headers })),
  );
  assert.equal(responses.filter(({ status }) => status === 202).length, 1);
  assert.equal(responses.filter(({ status }) => status === 200).length, 29);
  assert.equal(new Set(responses.map(({ text }) => text)).size, 1);
  assert.equal(await count(), before + 20);
});

test('a refused batch does not use up its key', async () => {
  const headers = { 'idempotency-key': randomUUID() };
  const bad = { ...EMAIL, from: 'a@unverified.test' };
  assertFailure(await post([...emails(2), bad], { headers }), 403, 'domain_not_verified');
  const nothing = await post([bad], { headers: { ...headers, ...PERMISSIVE.headers } });
  assert.deepEqual([nothing.status, nothing.body.data], [202, []]);
  assert.equal((await post(emails(2), { headers })).status, 202);
  const malformed = { 'idempotency-key': 'ü' };
  assertFailure(await post(emails(1), { headers: malformed }), 400, 'validation_error');
});

test('a key for one domain sends a batch from that domain only', async () => {
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'own.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  const made = await service.request('POST', '/v1/api-keys', {
    body: { name: 'own', permission: 'sending_access', domain: 'own.test' },
  });
  const { key } = made.body;
  const own = { ...EMAIL, from: 'hello@own.test' };
  const [other] = emails(1);
  assert.equal((await post([own, own], { key })).status, 202);
  assertFailure(
    await post([own, other], { key }),
    403,
    'authorization_error',
    /^\[1\]: .*own\.test/,
  );
  const permissive = await post([other, own], { key, ...PERMISSIVE });
  assert.equal(permissive.body.data.length, 1);
  const [{ index, code }] = permissive.body.errors;
  assert.deepEqual([index, code], [0, 'authorization_error']);
});

/** With 10 emails and 30 recipients in a minute. */
async function limitedProject() {
  const project = await service.otherProject();
  await project.addTestDomain('acme.test');
  await project.cliJson('projects', 'set-limit', '10/60');
  await project.cliJson('projects', 'set-limit', '30/60', '--category', 'recipients');
  return project;
}

test('every email of a batch counts to the limit, and a batch above it is refused as a whole', async () => {
  const small = await limitedProject();
  const first = await post(emails(7), {}, small);
  assert.deepEqual([first.status, first.headers.get('ratelimit-remaining')], [202, '3']);
  const refused = await post(emails(4), {}, small);
  assertFailure(
    refused,
    429,
    'rate_limit_error',
    /has 4 emails, but only 3 of the limit of 10 emails per 60 s are left/,
  );
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  assert.equal(refused.headers.get('ratelimit-remaining'), '3');
  assertFailure(await post(emails(11), {}, small), 429, 'rate_limit_error', /send fewer at once/);
  const permissive = await post(emails(4), PERMISSIVE, small);
  assert.equal(permissive.body.data.length, 3);
  const [{ index, code }] = permissive.body.errors;
  assert.deepEqual([index, code], [3, 'rate_limit_error']);
  assert.equal(await count(small), 10);

  const unused = await limitedProject();
  const to = (size: number) => Array.from({ length: size }, (_, n) => `jo${n}@simulator.test`);
  const large = await post(
    [10, 10, 11].map((size) => ({ ...EMAIL, to: to(size) })),
    {},
    unused,
  );
  assertFailure(large, 429, 'rate_limit_error', /31 recipients, more than the limit of 30/);
  assert.match(large.headers.get('ratelimit-policy') ?? '', /comment="recipients"/);
  assert.equal(await count(unused), 0);
});

test('a batch with a revoked key or an attachment that is too large is refused', async () => {
  const made = await service.request('POST', '/v1/api-keys', { body: { name: 'short' } });
  await service.request('DELETE', `/v1/api-keys/${made.body.id}`);
  for (const options of [{}, PERMISSIVE]) {
    const response = await post(emails(2), { key: made.body.key, ...options });
    assertFailure(response, 401, 'authentication_error');
  }
  const content = 'A'.repeat(31 * 1024 * 1024);
  const heavy = { ...EMAIL, attachments: [{ filename: 'a.bin', content }] };
  assertFailure(await post([...emails(1), heavy]), 422, 'validation_error', /^\[1\]: .*30 MB/);
});
