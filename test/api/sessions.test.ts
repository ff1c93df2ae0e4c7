/** Signing in to the dashboard, and the session as a credential for the API. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { assertFailure, EMAIL, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { Browser, OWNER, tokenOf } from '../support/browser.ts';
import { openEventStream } from '../support/event-stream.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const env = { LETTERHAUS_LIMIT_AUTH: '1000/60' };
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());

const anonymous = new Browser(service);
const link = service.readyLine.sign_in_url!;

const memberIs = (role: string) =>
  service.sql('update members set role = $1 where email = $2', [role, OWNER.email]);

test('before there is an owner, only the link of the first start leads anywhere', async () => {
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/sign-in#first=[\w-]{43}$/);
  const setup = await anonymous.get('/v1/session/setup');
  assert.deepEqual(setup.body, { object: 'setup', needs_owner: true, oidc: null, passkeys: false });
  assertFailure(await anonymous.get('/v1/session'), 401, 'authentication_error');
  assertFailure(await anonymous.signIn(OWNER), 401, 'authentication_error');
  const token = 'x'.repeat(43);
  const wrong = await anonymous.post('/v1/session/owner', { token, ...OWNER });
  assertFailure(wrong, 401, 'authentication_error', /letterhaus owner/);
});

test('a link from a command replaces the link of the first start, and ends after 30 minutes', async () => {
  const { sign_in_url: late } = await service.cliJson('owner', 'link');
  const withLink = (url: string) =>
    anonymous.post('/v1/session/owner', { token: tokenOf(url), ...OWNER });
  assertFailure(await withLink(link), 401, 'authentication_error');
  await service.clock.advance({ minutes: 31 });
  assertFailure(await withLink(late), 401, 'authentication_error', /its time is up/);
});

test('one link makes one owner, however often it is used at once', async () => {
  const { sign_in_url } = await service.cliJson('owner', 'link');
  const token = tokenOf(sign_in_url);
  const weak = await anonymous.post('/v1/session/owner', { token, ...OWNER, password: 'short' });
  assertFailure(weak, 422, 'validation_error', /^password: needs at least 10 characters/);
  const responses = await Promise.all(
    [1, 2, 3, 4].map((n) =>
      new Browser(service).post('/v1/session/owner', { token, ...OWNER, name: `Olga ${n}` }),
    ),
  );
  const made = responses.filter(({ status }) => status === 200);
  assert.equal(made.length, 1);
  for (const response of responses) {
    if (response !== made[0]) assertFailure(response, 401, 'authentication_error', /used already/);
  }
  const [row] = await service.sql('select count(*)::int as count from members');
  assert.equal(row.count, 1);
  assert.equal((await anonymous.get('/v1/session/setup')).body.needs_owner, false);
  const { code, stderr } = await service.cli('owner', 'link');
  assert.equal(code, 1);
  assert.match(stderr, /There is an owner already/);
  await service.sql('update members set name = $1', [OWNER.name]);
});

test('a password signs in; the cookie is for this site and for no script', async () => {
  const browser = new Browser(service);
  const { password } = OWNER;
  const response = await browser.signIn({ email: ' OWNER@acme.test', password });
  assert.equal(response.status, 200, response.text);
  const [cookie = '', device = ''] = response.headers.getSetCookie();
  assert.match(
    cookie,
    /^letterhaus_session=[\w-]{43}\.[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
  );
  assert.match(
    device,
    /^letterhaus_device=[\w.-]+; Path=\/; Max-Age=31536000; HttpOnly; SameSite=Strict$/,
  );
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(response.headers.get('access-control-allow-origin'), null);
  const { id, member, organization, projects, created_at, expires_at, ...rest } = response.body;
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  assert.match(expires_at, TIME);
  assert.deepEqual(rest, {
    object: 'session',
    environments: ['live', 'test'],
    totp_enabled: false,
    must_enrol: false,
  });
  assert.match(member.id, UUID_V7);
  assert.deepEqual(member, {
    id: member.id,
    email: OWNER.email,
    name: OWNER.name,
    role: 'owner',
    has_password: true,
    has_all_projects: true,
  });
  assert.equal(organization.name, 'Acme');
  assert.deepEqual(
    projects.map(({ name }: { name: string }) => name),
    ['Acme'],
  );
  assert.deepEqual((await browser.get('/v1/session')).body, response.body);
});

test('over HTTPS the cookie is secure, and bound to the host by its name', async () => {
  await using tls = await startService({
    env: { LETTERHAUS_PUBLIC_URL: 'https://mail.acme.test' },
  });
  const { sign_in_url } = tls.readyLine;
  assert.match(sign_in_url!, /^https:\/\/mail\.acme\.test\/sign-in#first=/);
  const browser = new Browser(tls);
  const token = tokenOf(sign_in_url!);
  const headers = { 'sec-fetch-site': '', origin: 'https://mail.acme.test' };
  const response = await browser.post('/v1/session/owner', { token, ...OWNER }, headers);
  assert.equal(response.status, 200, response.text);
  assert.match(
    response.headers.getSetCookie()[0]!,
    /^__Host-letterhaus_session=[\w-]{43}\.[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
  );
  assert.match(
    response.headers.getSetCookie()[1]!,
    /^__Host-letterhaus_device=[\w.-]+; Path=\/; Max-Age=31536000; HttpOnly; SameSite=Strict; Secure$/,
  );
  const plain = browser.cookie!.replace('__Host-', '');
  assert.equal((await browser.get('/v1/session')).status, 200);
  const renamed = await new Browser(tls).get('/v1/session', { cookie: plain });
  assertFailure(renamed, 401, 'authentication_error');
});

test('an unknown address and a wrong password get the same response', async () => {
  const responses = await Promise.all([
    anonymous.signIn({ email: OWNER.email, password: 'wrong password' }),
    anonymous.signIn({ email: 'nobody@acme.test', password: 'wrong password' }),
    anonymous.signIn({ email: 'not an address', password: 'wrong password' }),
  ]);
  for (const response of responses) {
    assertFailure(response, 401, 'authentication_error', /^The email address or the password is/);
    assert.deepEqual(response.headers.getSetCookie(), []);
  }
});

test('a session may do the same as a key, in the project and environment that it names', async () => {
  const browser = await signedIn();
  const sent = await browser.post('/v1/emails', EMAIL);
  assert.equal(sent.status, 202, sent.text);
  await service.waitForStatus(sent.body.id, 'delivered');
  assert.equal((await browser.get(`/v1/emails/${sent.body.id}`)).body.subject, 'Hello');
  const again = await browser.post('/v1/emails', EMAIL);
  assert.equal(again.status, 202, again.text);
  const live = { 'letterhaus-environment': 'live' };
  assertFailure(await browser.get(`/v1/emails/${sent.body.id}`, live), 404, 'not_found');
  const real = { ...EMAIL, to: 'jo@example-customer.com' };
  assertFailure(await browser.post('/v1/emails', real, live), 403, 'domain_not_verified');

  const { body: shop } = await browser.post('/v1/projects', { name: 'Shop' });
  const there = { 'letterhaus-project': shop.id };
  assert.deepEqual((await browser.get('/v1/emails', there)).body.data, []);
  assert.equal((await browser.get('/v1/emails')).body.data.length, 2);
  for (const project of [UNKNOWN_ID, 'acme']) {
    const response = await browser.get('/v1/emails', { 'letterhaus-project': project });
    assertFailure(response, 404, 'not_found');
  }
  const elsewhere = await browser.get('/v1/emails', { 'letterhaus-environment': 'production' });
  assertFailure(elsewhere, 400, 'validation_error', /live or test/);
  const renamed = await browser.request('PATCH', `/v1/projects/${shop.id}`, {
    body: { name: 'Store' },
  });
  assert.equal(renamed.body.name, 'Store');
});

test('a name belongs to one project of an organization, also when two members create it at once', async () => {
  const browser = await signedIn();
  const create = () => browser.post('/v1/projects', { name: 'Newsletter' });
  const both = await Promise.all([create(), create()]);
  const statuses = both.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [201, 409]);
  const again = await browser.post('/v1/projects', { name: 'NEWSLETTER' });
  assertFailure(again, 409, 'conflict', /"NEWSLETTER" already; choose another name/);
  const { body: other } = await browser.post('/v1/projects', { name: 'Receipts' });
  const rename = (name: string) =>
    browser.request('PATCH', `/v1/projects/${other.id}`, { body: { name } });
  assertFailure(await rename('newsletter'), 409, 'conflict');
  assert.equal((await rename('receipts')).status, 200, 'its own name in another case');
});

test('the keys with which members send are not among the keys', async () => {
  const browser = await signedIn();
  const { body: keys } = await browser.get('/v1/api-keys');
  assert.deepEqual(
    keys.data.map(({ name }: { name: string }) => name),
    ['First test key'],
  );
  const made = await browser.post('/v1/api-keys', { name: 'Of the dashboard' });
  assert.equal(made.status, 201, made.text);
  const { id, key } = made.body;
  assert.equal((await service.request('GET', '/v1/emails', { key })).status, 200);
  const revoked = await browser.request('DELETE', `/v1/api-keys/${id}`);
  assert.equal(revoked.status, 200);
  assertFailure(await service.request('GET', '/v1/emails', { key }), 401, 'authentication_error');
});

test('a request with a key ignores the cookie', async () => {
  const browser = await signedIn();
  const wrong = await browser.get('/v1/emails', { authorization: 'Bearer lh_test_wrong' });
  assertFailure(wrong, 401, 'authentication_error', /not an API key/);
  const session = await browser.get('/v1/session', { authorization: `Bearer ${service.testKey}` });
  assertFailure(session, 403, 'authorization_error', /not API keys/);
  const own = await browser.get('/v1/api-keys/current');
  assertFailure(own, 401, 'authentication_error', /No API key was sent/);
  const root = await browser.get('/emails');
  assert.equal(root.status, 401);
});

test('a request that another site causes changes nothing', async () => {
  const browser = await signedIn();
  const origin = new URL(service.url).origin;
  const foreign: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site', origin },
    { 'sec-fetch-site': '', origin: 'https://evil.test' },
    { 'sec-fetch-site': '', origin: 'null' },
    { 'sec-fetch-site': '' },
    { 'letterhaus-session': '' },
    { 'letterhaus-session': '', origin },
  ];
  for (const headers of foreign) {
    const sent = await browser.post('/v1/emails', EMAIL, headers);
    assertFailure(sent, 403, 'authorization_error', /from the dashboard itself/);
    const signIn = await anonymous.post('/v1/session', OWNER, headers);
    assertFailure(signIn, 403, 'authorization_error');
    const out = await browser.request('DELETE', '/v1/session', { headers });
    assertFailure(out, 403, 'authorization_error');
  }
  const own = { 'sec-fetch-site': '', origin };
  assert.equal((await browser.post('/v1/emails', EMAIL, own)).status, 202);
  assert.equal((await browser.get('/v1/session', { 'letterhaus-session': '' })).status, 200);
  const preflight = await anonymous.request('OPTIONS', '/v1/emails', {
    headers: { origin: 'https://evil.test', 'access-control-request-method': 'POST' },
  });
  assertFailure(preflight, 405, 'method_not_allowed');
  assert.equal(preflight.headers.get('access-control-allow-origin'), null);
});

test('each role allows its operations, and a changed role applies at once', async () => {
  const browser = await signedIn();
  const domain = { name: 'role.test' };
  const status = async (response: Promise<ApiResponse>) => (await response).status;
  try {
    await memberIs('viewer');
    const refused = await browser.post('/v1/emails', EMAIL);
    assertFailure(refused, 403, 'authorization_error', /Your role is viewer.*needs the role deve/);
    assert.equal(await status(browser.get('/v1/emails')), 200);
    assertFailure(await browser.get('/v1/api-keys'), 403, 'authorization_error');
    await memberIs('developer');
    assert.equal(await status(browser.post('/v1/emails', EMAIL)), 202);
    assert.equal(await status(browser.get('/v1/domains')), 200);
    assertFailure(await browser.post('/v1/domains', domain), 403, 'authorization_error');
    assertFailure(await browser.post('/v1/api-keys', { name: 'x' }), 403, 'authorization_error');
    await memberIs('admin');
    assert.equal(await status(browser.post('/v1/domains', domain)), 201);
  } finally {
    await memberIs('owner');
  }
});

test('a session follows events, until it ends', async () => {
  const browser = await signedIn();
  await using stream = await openEventStream(service.url, {
    cookie: browser.cookie!,
    path: '/v1/events?after=latest',
  });
  await browser.post('/v1/emails', EMAIL);
  await stream.waitForCount(1);
  await browser.request('DELETE', '/v1/session');
  await stream.waitForEnd();
});

test('signing out ends this session, the others, or all', async () => {
  const [one, two, three] = [await signedIn(), await signedIn(), await signedIn()];
  const { data } = (await one.get('/v1/session/all')).body;
  assert.ok(data.length >= 3);
  const current = data.filter(({ is_current }: { is_current: boolean }) => is_current);
  assert.equal(current.length, 1);
  assert.equal(current[0].network, '127.0.0.0');
  const { body: second } = await two.get('/v1/session');
  assert.equal((await one.request('DELETE', `/v1/session/all/${second.id}`)).status, 200);
  assertFailure(await two.get('/v1/session'), 401, 'authentication_error');
  assert.equal(two.cookie, null);
  const unknown = await one.request('DELETE', `/v1/session/all/${UNKNOWN_ID}`);
  assertFailure(unknown, 404, 'not_found');

  const { cookie } = three;
  assert.equal((await three.request('DELETE', '/v1/session')).status, 200);
  assert.equal(three.cookie, null);
  assertFailure(
    await anonymous.get('/v1/session', { cookie: cookie! }),
    401,
    'authentication_error',
  );

  const four = await signedIn();
  assert.ok((await one.request('DELETE', '/v1/session/all')).body.count >= 2);
  assertFailure(await four.get('/v1/session'), 401, 'authentication_error');
});

test('signing in again ends the session that the browser had', async () => {
  const browser = await signedIn();
  const { cookie } = browser;
  assert.equal((await browser.signIn(OWNER)).status, 200);
  assert.notEqual(browser.cookie, cookie);
  assertFailure(
    await anonymous.get('/v1/session', { cookie: cookie! }),
    401,
    'authentication_error',
  );
});

test('the token is replaced every hour; the old one ends a minute after the first use of the new one', async () => {
  const browser = await signedIn();
  const old = browser.cookie!;
  await service.clock.advance({ minutes: 61 });
  const responses = await Promise.all(
    Array.from({ length: 12 }, () => browser.get('/v1/session', { cookie: old })),
  );
  for (const { status } of responses) assert.equal(status, 200);
  const replaced = responses.flatMap(({ headers }) => headers.getSetCookie());
  assert.equal(replaced.length, 1);
  assert.notEqual(browser.cookie, old);
  // The response with the new one may be lost.
  await service.clock.advance({ minutes: 5 });
  const late = await anonymous.get('/v1/session', { cookie: old });
  assert.equal(late.status, 200);
  const fresh = anonymous.cookie!;
  assert.ok(fresh !== old && fresh !== browser.cookie);
  assert.equal((await anonymous.get('/v1/session')).status, 200);
  assert.equal((await anonymous.get('/v1/session', { cookie: old })).status, 200);
  await service.clock.advance({ minutes: 2 });
  assert.equal((await anonymous.get('/v1/session', { cookie: fresh })).status, 200);
  assertFailure(await anonymous.get('/v1/session', { cookie: old }), 401, 'authentication_error');
  anonymous.cookie = null;
});

test('a session ends after a week without a request, and after 30 days', async () => {
  const browser = await signedIn();
  for (let day = 0; day < 30; day += 6) {
    assert.equal((await browser.get('/v1/session')).status, 200, `day ${day}`);
    await service.clock.advance({ hours: 6 * 24 });
  }
  assertFailure(await browser.get('/v1/session'), 401, 'authentication_error');
  const idle = await signedIn();
  await service.clock.advance({ hours: 7 * 24 + 1 });
  assertFailure(await idle.get('/v1/session'), 401, 'authentication_error');
});

test('a member changes the password; other sessions end', async () => {
  const [browser, other] = [await signedIn(), await signedIn()];
  const change = (current_password: string, password: string) =>
    browser.post('/v1/session/password', { current_password, password });
  const next = 'a quite different passphrase';
  assertFailure(
    await change('wrong', next),
    422,
    'validation_error',
    /^Your current password is wrong\.$/,
  );
  assertFailure(await change(OWNER.password, OWNER.email), 422, 'validation_error', /contains/);
  assert.equal((await change(OWNER.password, next)).status, 200);
  assert.equal((await browser.get('/v1/session')).status, 200);
  assertFailure(await other.get('/v1/session'), 401, 'authentication_error');
  assertFailure(await anonymous.signIn(OWNER), 401, 'authentication_error');
  assert.equal((await change(next, OWNER.password)).status, 200);
});

test('a member who is locked out gets a link from a command, which works once', async () => {
  const browser = await signedIn();
  const unknown = await service.cli('owner', 'reset', 'nobody@acme.test');
  assert.equal(unknown.code, 1);
  const { sign_in_url } = await service.cliJson('owner', 'reset', OWNER.email);
  assert.match(sign_in_url, /\/sign-in#reset=[\w-]{43}$/);
  const body = { token: tokenOf(sign_in_url), password: 'another horse and battery' };
  const fresh = new Browser(service);
  assert.equal((await fresh.post('/v1/session/reset', body)).status, 200);
  assert.equal((await fresh.get('/v1/session')).status, 200);
  assertFailure(await browser.get('/v1/session'), 401, 'authentication_error');
  assertFailure(await anonymous.post('/v1/session/reset', body), 401, 'authentication_error');
  const { cookie } = fresh;
  const again = await service.cliJson('owner', 'reset', OWNER.email);
  const back = { token: tokenOf(again.sign_in_url), password: OWNER.password };
  assert.equal((await fresh.post('/v1/session/reset', back)).status, 200);
  assertFailure(
    await anonymous.get('/v1/session', { cookie: cookie! }),
    401,
    'authentication_error',
  );
});

test('a password is stored as argon2id, a token as its hash, and neither is logged', async () => {
  const browser = await signedIn();
  const [member] = await service.sql('select members::text as all, password from members');
  assert.match(member.password, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  const token = browser.cookie!.split(/[=.]/)[1]!;
  const tokens = await service.sql(
    'select sha256, session_tokens::text as all from session_tokens',
  );
  const sha256 = createHash('sha256').update(token).digest();
  assert.ok(tokens.some((row) => sha256.equals(row.sha256)));
  for (const row of [member, ...tokens]) assert.ok(!row.all.includes(token));
  await waitFor(() => service.logs.includes('/v1/session'), { what: 'the log' });
  for (const secret of [token, tokenOf(link), OWNER.password, OWNER.email]) {
    assert.ok(!service.logs.includes(secret), secret);
  }
});

async function signedIn(): Promise<Browser> {
  const browser = new Browser(service);
  const response = await browser.signIn(OWNER);
  assert.equal(response.status, 200, response.text);
  return browser;
}
