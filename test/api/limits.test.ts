/** Limits: which requests count, for which project, and how the response reports it. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { type ApiResponse, type RequestOptions, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const SECRET = 'one secret for all nodes of this test';
const env = {
  LETTERHAUS_LIMIT_SENDING: '20/60',
  LETTERHAUS_LIMIT_VERIFICATION: '3/60',
  LETTERHAUS_LIMIT_AUTH: '5/60',
  LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
  LETTERHAUS_SECRET_KEY: SECRET,
};
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());

const { id: domainId } = (await service.request('GET', '/v1/domains')).body.data[0];

const send = (options: RequestOptions = {}, on = service) =>
  on.request('POST', '/v1/emails', { body: EMAIL, key: service.testKey, ...options });
const verify = (key = service.testKey) =>
  service.request('POST', `/v1/domains/${domainId}/verify`, { key });

/** Every test begins with windows that are over. */
const newWindow = () => service.clock.advance({ seconds: 61 });

type StatedLimit = { limit: number; remaining: number; reset: number };

/** Returns the limit in the headers. Both families of headers must agree. */
function limitIn({ headers }: ApiResponse): StatedLimit {
  const read = (name: string) => headers.get(name) ?? '';
  for (const name of ['limit', 'remaining', 'reset']) {
    assert.match(read(name), /^\d+$/);
    assert.equal(read(`ratelimit-${name}`), read(name));
  }
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
    Number(read(name)),
  );
  assert.equal(read('ratelimit-policy'), `${limit};w=60`);
  return { limit: limit!, remaining: remaining!, reset: reset! };
}

function assertLimited(response: ApiResponse): void {
  assertFailure(response, 429, 'rate_limit_error', /\d+ s/);
  const { remaining, reset } = limitIn(response);
  assert.equal(remaining, 0);
  assert.ok(reset >= 1 && reset <= 60);
  assert.equal(response.headers.get('retry-after'), String(reset));
}

const countStatus = (responses: ApiResponse[], status: number) =>
  responses.filter((response) => response.status === status).length;

const inParallel = (count: number, ask: (n: number) => Promise<ApiResponse>) =>
  Promise.all(Array.from({ length: count }, (_, n) => ask(n)));

test('the limits are listed with their remaining numbers, and who set them', async () => {
  await newWindow();
  const of = async (category: string) => {
    const { body } = await service.request('GET', '/v1/limits');
    return body.limits.find((one: { category: string }) => one.category === category);
  };
  const { reset_s, ...unused } = await of('sending');
  assert.ok(reset_s > 0 && reset_s <= 60);
  assert.deepEqual(unused, {
    category: 'sending',
    counts: 'accepted emails',
    limit: 20,
    window_s: 60,
    remaining: 20,
    is_own: false,
    variable: 'LETTERHAUS_LIMIT_SENDING',
  });
  assert.equal(await of('recipients'), undefined, 'only if it is limited');
  assert.equal((await send()).status, 202);
  assert.equal((await of('sending')).remaining, 19);

  const setRecipients = (limit: string) =>
    service.cliJson('projects', 'set-limit', limit, '--category', 'recipients');
  await setRecipients('500/600');
  const { remaining, window_s, is_own } = await of('recipients');
  assert.deepEqual(
    { remaining, window_s, is_own },
    { remaining: 499, window_s: 600, is_own: true },
  );
  await setRecipients('default');
  const { domains, retention } = (await service.request('GET', '/v1/limits')).body;
  assert.deepEqual(domains, { max: 1000, used: 1 });
  assert.deepEqual(retention, { content_hours: 45 * 24, metadata_hours: 90 * 24 });
});

test('the limit of dry runs is listed with the sending limit, and with its remaining number', async () => {
  await newWindow();
  const listed = async () => {
    const { body } = await service.request('GET', '/v1/limits');
    return body.limits.find((one: { category: string }) => one.category === 'dry_runs');
  };
  const { reset_s: _, ...unused } = await listed();
  assert.deepEqual(unused, {
    category: 'dry_runs',
    counts: 'dry runs',
    limit: 20,
    window_s: 60,
    remaining: 20,
    is_own: false,
    variable: 'LETTERHAUS_LIMIT_SENDING',
  });
  const dryRun = { body: EMAIL, key: service.testKey };
  assert.equal((await service.request('POST', '/v1/emails?dry_run=true', dryRun)).status, 200);
  assert.equal((await listed()).remaining, 19);
  await service.cliJson('projects', 'set-limit', '30/600');
  const { limit, remaining, window_s, is_own } = await listed();
  assert.deepEqual([limit, remaining, window_s, is_own], [30, 29, 600, true]);
  await service.cliJson('projects', 'set-limit', 'default');
});

test('the limit on emails is exact for concurrent requests', async () => {
  await newWindow();
  const [before] = await service.sql('select count(*)::int as n from emails');
  const responses = await inParallel(60, () => send());
  assert.equal(countStatus(responses, 202), 20);
  for (const response of responses) if (response.status !== 202) assertLimited(response);
  // Emails that are committed together get the state of the limit after them.
  const remaining = responses.map((response) => limitIn(response).remaining);
  assert.ok(Math.min(...remaining) === 0 && Math.max(...remaining) < 20);
  const [row] = await service.sql('select count(*)::int as n from emails');
  assert.equal(row.n, before.n + 20);
});

test('the limit is exact over two nodes on one database', async () => {
  const { DATABASE_URL } = service.env;
  await using second = await startService({ env: { ...env, DATABASE_URL } });
  await newWindow();
  const responses = await inParallel(60, (n) => send({}, n % 2 === 0 ? service : second));
  assert.equal(countStatus(responses, 202), 20);
  assert.equal(countStatus(responses, 429), 40);
});

test('every response of a limited endpoint has the state of the limit', async () => {
  await newWindow();
  const headers = { 'idempotency-key': 'limits' };
  const responses = [
    await send({ headers }),
    await send({ headers }),
    await send({ headers, body: { ...EMAIL, subject: 'Other' } }),
    await send({ body: {} }),
    await send({ body: { ...EMAIL, from: 'a@other.test' } }),
    await send({ body: '{' }),
    await send({ headers: { 'content-type': 'text/plain' } }),
  ];
  assert.deepEqual(
    responses.map(({ status }) => status),
    [202, 200, 409, 422, 403, 400, 415],
  );
  for (const response of responses) {
    const { limit, remaining, reset } = limitIn(response);
    assert.deepEqual([limit, remaining], [20, 19], response.text);
    assert.ok(reset > 50 && reset <= 60);
  }
});

test('a window begins with the first email and lasts a minute', async () => {
  await newWindow();
  assert.equal(limitIn(await send()).reset, 60);
  await service.clock.advance({ seconds: 30 });
  const rest = await inParallel(20, () => send());
  assert.equal(countStatus(rest, 202), 19);
  const limited = await send();
  assertLimited(limited);
  assert.ok(limitIn(limited).reset <= 30);
  await service.clock.advance({ seconds: 31 });
  const next = await send();
  assert.equal(next.status, 202);
  assert.deepEqual([limitIn(next).remaining, limitIn(next).reset], [19, 60]);
});

test('idempotent repetitions do not count, and get their response beyond the limit', async () => {
  await newWindow();
  const headers = { 'idempotency-key': 'replayed' };
  assert.equal(limitIn(await send({ headers })).remaining, 19);
  const repetitions = await inParallel(30, () => send({ headers }));
  for (const repetition of repetitions)
    assert.deepEqual([repetition.status, limitIn(repetition).remaining], [200, 19]);
  await inParallel(19, () => send());
  assertLimited(await send());
  assert.equal((await send({ headers })).status, 200);
});

test('verifications have their own limit', async () => {
  await newWindow();
  const responses = await inParallel(8, () => verify());
  assert.equal(countStatus(responses, 200), 3);
  for (const response of responses) {
    assert.equal(limitIn(response).limit, 3);
    if (response.status !== 200) assertLimited(response);
  }
  assert.equal((await send()).status, 202);
  await newWindow();
  assert.equal((await verify()).status, 200);
});

test('each environment and each project has its own window', async () => {
  await newWindow();
  await inParallel(20, () => send());
  assertLimited(await send());
  const live = await service.liveKey();
  const elsewhere = await send({ key: live, body: { ...EMAIL, to: 'jo@acme.io' } });
  assertFailure(elsewhere, 403, 'domain_not_verified');
  assert.equal(limitIn(elsewhere).remaining, 20);
  await service.cliJson('projects', 'create', 'Other');
  const { key } = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  assert.equal(limitIn(await send({ key })).remaining, 20);
});

test('keys of one project and environment share a window', async () => {
  await newWindow();
  const { body } = await service.request('POST', '/v1/api-keys', { body: { name: 'second' } });
  await send();
  assert.equal(limitIn(await send({ key: body.key })).remaining, 18);
});

test('an operator can set and reset the limit of a project', async () => {
  const project = (await service.request('GET', '/v1/api-keys/current')).body.project.id;
  const set = (limit: string) =>
    service.cliJson('projects', 'set-limit', limit, '--project', project, '--environment', 'test');
  await newWindow();
  await set('2/60');
  const responses = await inParallel(5, () => send());
  assert.equal(countStatus(responses, 202), 2);
  assert.equal(limitIn(responses[0]!).limit, 2);
  await set('default');
  const next = await send();
  assert.deepEqual([next.status, limitIn(next).limit], [202, 20]);
});

const ask = (options: RequestOptions) => service.request('GET', '/v1/emails', options);

/** From another address, as a trusted proxy reports it. */
const from = (address: string): RequestOptions => ({
  key: null,
  headers: { 'x-forwarded-for': address },
});

test('failed authentications are limited per address, while a valid key always works', async () => {
  await newWindow();
  const failing: RequestOptions[] = [
    from('192.0.2.1'),
    { key: 'nonsense', headers: { 'x-forwarded-for': '192.0.2.1' } },
    { key: `lh_test_${'0'.repeat(38)}`, headers: { 'x-forwarded-for': '192.0.2.1' } },
    from('192.0.2.1'),
    from('192.0.2.1'),
  ];
  for (const [n, options] of failing.entries()) {
    const response = await ask(options);
    assertFailure(response, 401, 'authentication_error');
    assert.deepEqual(limitIn(response).remaining, 4 - n);
  }
  assertLimited(await ask(from('192.0.2.1')));
  assertLimited(await ask({ key: 'nonsense', headers: { 'x-forwarded-for': '192.0.2.1' } }));
  const valid = await ask({ headers: { 'x-forwarded-for': '192.0.2.1' } });
  assert.equal(valid.status, 200);
  assert.equal((await send({ headers: { 'x-forwarded-for': '192.0.2.1' } })).status, 202);
  assertFailure(await ask(from('192.0.2.2')), 401, 'authentication_error');
  await newWindow();
  await waitFor(async () => (await ask(from('192.0.2.1'))).status === 401, {
    what: 'the next window',
  });
});

test('concurrent failures are counted exactly', async () => {
  await newWindow();
  const responses = await inParallel(40, () => ask(from('192.0.2.3')));
  assert.equal(countStatus(responses, 401), 5);
  assert.equal(countStatus(responses, 429), 35);
});

test('an IPv6 network counts as one address', async () => {
  await newWindow();
  const responses: ApiResponse[] = [];
  for (let n = 1; n <= 6; n += 1) responses.push(await ask(from(`2001:db8:0:1::${n}`)));
  assert.deepEqual(
    responses.map(({ status }) => status),
    [401, 401, 401, 401, 401, 429],
  );
  assert.equal((await ask(from('2001:db8:0:2::1'))).status, 401);
});

test('the default limits are 100 emails, 10 verifications and 20 failures per minute', async () => {
  await using other = await startService({ args: ['--workers', '1'] });
  assert.deepEqual(limitIn(await send({ key: other.testKey }, other)).limit, 100);
  const { data } = (await other.request('GET', '/v1/domains')).body;
  const verified = await other.request('POST', `/v1/domains/${data[0].id}/verify`);
  assert.deepEqual([limitIn(verified).limit, limitIn(verified).remaining], [10, 9]);
  const failed = await other.request('GET', '/v1/emails', { key: null });
  assert.deepEqual([limitIn(failed).limit, limitIn(failed).remaining], [20, 19]);
  const forged = await other.request('GET', '/v1/emails', from('192.0.2.9'));
  assert.equal(limitIn(forged).remaining, 18);
});

test('dry runs have their own limit, as large as the sending limit, exact over two workers', async () => {
  await newWindow();
  const dryRun = () =>
    service.request('POST', '/v1/emails?dry_run=true', { body: EMAIL, key: service.testKey });
  const first = await dryRun();
  assert.equal(first.status, 200, first.text);
  assert.deepEqual([limitIn(first).limit, limitIn(first).remaining], [20, 19]);
  const others = await inParallel(25, dryRun);
  assert.equal(countStatus(others, 200), 19);
  const refused = others.find(({ status }) => status === 429)!;
  assertLimited(refused);
  assert.match(refused.body.error.message, /^The limit of 20 dry runs per 60 s is used up/);
  const sent = await send();
  assert.equal(sent.status, 202, 'an email is counted apart');
  assert.equal(limitIn(sent).remaining, 19);

  const project = (await service.request('GET', '/v1/api-keys/current')).body.project.id;
  const set = (limit: string) =>
    service.cliJson('projects', 'set-limit', limit, '--project', project, '--environment', 'test');
  await set('30/60');
  await newWindow();
  assert.equal(limitIn(await dryRun()).limit, 30, 'it follows the limit of sending');
  await set('default');
});
