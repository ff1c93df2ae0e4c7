/** Signing in with an identity provider (OpenID Connect): `oidc-provider` on loopback, and its faults. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf, currentCode, tokenOf } from '../support/browser.ts';
import { type ProviderAccount, startIdentityProvider } from '../support/identity-provider.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const idp = await startIdentityProvider();
const service = await startService({
  env: { ...idp.env, LETTERHAUS_LIMIT_AUTH: '1000/60', LETTERHAUS_SECRET_KEY: 's'.repeat(40) },
  args: ['--workers', '2'],
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await idp[Symbol.asyncDispose]();
});
idp.serve(service.url);
const owner = await ownerOf(service);

const nowS = () => Math.floor(Date.now() / 1000);

function account(login: string, more: ProviderAccount = {}): ProviderAccount {
  const known = {
    email: `${login}@acme.test`,
    email_verified: true,
    name: `${login} Doe`,
    ...more,
  };
  idp.accounts.set(login, known);
  return known;
}

async function begin(browser: Browser): Promise<string> {
  const begun = await browser.post('/v1/session/oidc/start', {});
  assert.equal(begun.status, 200, begun.text);
  return begun.body.url;
}

async function signIn(login: string, browser = new Browser(service)): Promise<ApiResponse> {
  const response = await idp.authorize(await begin(browser), login);
  return browser.post('/v1/session/oidc', { response });
}

const invite = async (email: string, role: string): Promise<string> => {
  const { body } = await owner.post('/v1/invitations', { email, role });
  return tokenOf(body.url);
};

test('the sign-in page names the provider, and the provider gets state, nonce and PKCE', async () => {
  const { body } = await new Browser(service).get('/v1/session/setup');
  assert.deepEqual(body.oidc, { name: 'Acme Login' });
  const browser = new Browser(service);
  const url = new URL(await begin(browser));
  assert.equal(url.origin, idp.issuer);
  for (const name of ['state', 'nonce', 'code_challenge']) {
    assert.ok(url.searchParams.get(name)!.length >= 43, name);
  }
  assert.equal(url.searchParams.get('code_challenge_method'), 'S256');
  assert.equal(url.searchParams.get('redirect_uri'), `${service.url}/auth/oidc/callback`);
  const { headers } = await browser.post('/v1/session/oidc/start', {});
  const [cookie = ''] = headers.getSetCookie();
  assert.match(cookie, /; HttpOnly; SameSite=Strict/);
  const callback = await fetch(`${service.url}/auth/oidc/callback?code=a%26b&state=c`, {
    redirect: 'manual',
  });
  const page = callback.headers.get('location');
  assert.equal(page, `/dashboard/sign-in#oidc=${encodeURIComponent('code=a%26b&state=c')}`);
  assert.equal(callback.headers.get('referrer-policy'), 'no-referrer');
});

test('an invited person becomes a member without a password, and later signs in by the account, not the address', async () => {
  account('ann');
  const stranger = await signIn('ann');
  assertFailure(stranger, 401, 'authentication_error', /No member .* ann@acme\.test .* invitation/);
  await invite('Ann@acme.test', 'developer');
  const joined = await signIn('ann');
  assert.equal(joined.status, 200, joined.text);
  const { id, ...member } = joined.body.member;
  assert.deepEqual(member, {
    email: 'ann@acme.test',
    name: 'ann Doe',
    role: 'developer',
    has_password: false,
    has_all_projects: true,
  });
  assert.deepEqual((await owner.get('/v1/invitations')).body.data, []);

  account('ann', { email: 'ann@elsewhere.test', email_verified: false });
  const again = await signIn('ann');
  assert.equal(again.status, 200, again.text);
  assert.equal(again.body.member.id, id);

  const { data } = (await owner.get('/v1/audit_log?limit=20')).body;
  const own = data.filter(
    ({ target_id: target, actor }: { target_id: string; actor: { id: string } }) =>
      target === id || actor.id === id,
  );
  assert.deepEqual(
    own.map(({ action }: { action: string }) => action),
    ['signInWithOidc', 'signInWithOidc', 'linkOidc', 'joinByOidc'],
  );
  assert.equal(own[2].actor.name, 'identity provider Acme Login');
});

test('a person invited to one project has a role in this one only', async () => {
  const shop = (await owner.post('/v1/projects', { name: 'Shop' })).body.id as string;
  const projects = [{ id: shop, role: 'developer' }];
  const invited = await owner.post('/v1/invitations', { email: 'cleo@acme.test', projects });
  assert.equal(invited.status, 201, invited.text);
  account('cleo');
  const browser = new Browser(service);
  const joined = await signIn('cleo', browser);
  assert.equal(joined.status, 200, joined.text);
  assert.equal(joined.body.member.has_all_projects, false);
  assert.deepEqual(joined.body.projects, [{ id: shop, name: 'Shop', role: 'developer' }]);
  const [other] = (await owner.get('/v1/session')).body.projects;
  const headers = { 'letterhaus-project': other.id };
  assertFailure(await browser.get('/v1/emails', headers), 404, 'not_found', /no project/);
  const again = await signIn('cleo');
  assert.equal(again.body.member.has_all_projects, false, 'the next sign-in changes nothing');
});

test('a member with a password is linked by a verified address only, to one account', async () => {
  account('olga', { email: OWNER.email, email_verified: false });
  const unverified = await signIn('olga');
  assertFailure(unverified, 401, 'authentication_error', /has not verified the email address/);
  idp.accounts.set('olga', { email: OWNER.email });
  assertFailure(await signIn('olga'), 401, 'authentication_error', /has not verified/);
  account('olga', { email: OWNER.email.toUpperCase() });
  const linked = await signIn('olga');
  assert.equal(linked.status, 200, linked.text);
  assert.equal(linked.body.member.email, OWNER.email);
  assert.equal((await new Browser(service).signIn(OWNER)).status, 200);

  account('thief', { email: OWNER.email });
  assertFailure(await signIn('thief'), 401, 'authentication_error', /with another account/);
  await service.cliJson('owner', 'reset', OWNER.email, '--remove-oidc');
  assert.equal((await signIn('thief')).status, 200);
  assertFailure(await signIn('olga'), 401, 'authentication_error', /with another account/);
});

test('a response is used once, in the browser where it began, and with its own state', async () => {
  await invite('bob@acme.test', 'viewer');
  account('bob');
  const browser = new Browser(service);
  const url = await begin(browser);
  const { progress } = browser;
  const response = await idp.authorize(url, 'bob');
  const other = await new Browser(service).post('/v1/session/oidc', { response });
  assertFailure(other, 401, 'authentication_error', /began in another browser/);
  const responses = await Promise.all(
    [1, 2, 3].map(() => {
      const thief = new Browser(service);
      thief.progress = progress;
      return thief.post('/v1/session/oidc', { response });
    }),
  );
  assert.equal(responses.filter(({ status }) => status === 200).length, 1);
  for (const { status, body } of responses) {
    if (status !== 200) assert.match(body.error.message, /was used already/);
  }
  const changed = new Browser(service);
  const query = await idp.authorize(await begin(changed), 'bob');
  const wrongState = query.replace(/state=[^&]+/, 'state=wrong');
  const refused = await changed.post('/v1/session/oidc', { response: wrongState });
  assertFailure(refused, 401, 'authentication_error', /is not valid for this sign-in/);
  changed.progress = 'letterhaus_sign_in=forged';
  const forged = await changed.post('/v1/session/oidc', { response: query });
  assertFailure(forged, 401, 'authentication_error', /began in another browser/);
  const site = { 'sec-fetch-site': 'cross-site' };
  const foreign = await browser.post('/v1/session/oidc', { response: query }, site);
  assertFailure(foreign, 403, 'authorization_error');
});

test('an ID token for another client, with another nonce or issuer is refused, and the log says why', async () => {
  const faults = {
    'unexpected JWT "aud"': { aud: 'another-client' },
    'unexpected ID Token "nonce"': { nonce: 'another-nonce' },
    'unexpected JWT "iss"': { iss: 'https://elsewhere.test' },
  };
  for (const [reason, fault] of Object.entries(faults)) {
    idp.forge = (claims) => ({ ...claims, ...fault });
    assertFailure(await signIn('bob'), 401, 'authentication_error', /is not valid/);
    await service.logged(
      new RegExp(`"event":"oidc\\.failed".*${reason.replaceAll('"', '.{1,2}')}`),
    );
  }
  idp.forge = null;
  assert.equal((await signIn('bob')).status, 200);
});

test('clocks may differ by a minute', async () => {
  idp.forge = (claims) => ({ ...claims, iat: nowS() - 3_630, exp: nowS() - 30 });
  assert.equal((await signIn('bob')).status, 200);
  idp.forge = (claims) => ({ ...claims, iat: nowS() - 3_690, exp: nowS() - 90 });
  assertFailure(await signIn('bob'), 401, 'authentication_error', /The clocks of Acme Login/);
  idp.forge = null;
});

test('while the provider is down, sign-in says so, passwords work, and it recovers by itself', async () => {
  const browser = new Browser(service);
  const response = await idp.authorize(await begin(browser), 'bob');
  idp.isDown = true;
  const finished = await browser.post('/v1/session/oidc', { response });
  assertFailure(finished, 503, 'service_unavailable', /^Acme Login does not respond/);
  await service.restart();
  idp.serve(service.url);
  const begun = await new Browser(service).post('/v1/session/oidc/start', {});
  assertFailure(begun, 503, 'service_unavailable', /^Acme Login does not respond/);
  assert.equal((await owner.signIn(OWNER)).status, 200);
  idp.isDown = false;
  assert.equal((await signIn('bob')).status, 200);
});

test('a person who declines at the provider gets a sentence about it', async () => {
  const browser = new Browser(service);
  const state = new URL(await begin(browser)).searchParams.get('state');
  const response = `error=access_denied&state=${state}&iss=${encodeURIComponent(idp.issuer)}`;
  const refused = await browser.post('/v1/session/oidc', { response });
  assertFailure(refused, 401, 'authentication_error', /^Acme Login denied access/);
});

test('a member without a password confirms changes by a recent sign-in; a second factor is asked for, unless the provider had one', async () => {
  const browser = new Browser(service);
  assert.equal((await signIn('ann', browser)).status, 200);
  const change = { current_password: 'does not exist', password: 'a new password of mine' };
  assertFailure(await browser.post('/v1/session/password', change), 409, 'conflict', /no password/);
  await service.clock.advance({ minutes: 16 });
  const late = await browser.post('/v1/session/totp', {});
  assertFailure(late, 403, 'authorization_error', /more than 15 minutes ago/);
  assert.equal((await signIn('ann', browser)).status, 200);
  const { body: begun } = await browser.post('/v1/session/totp', {});
  const first = await currentCode(service, begun.secret);
  assert.equal((await browser.post('/v1/session/totp/confirm', { code: first })).status, 200);

  const asked = new Browser(service);
  const response = await idp.authorize(await begin(asked), 'ann');
  const finish = (code?: string) =>
    asked.post('/v1/session/oidc', { response, ...(code !== undefined && { code }) });
  assertFailure(await finish(), 401, 'totp_required', /^Enter the code/);
  const { progress } = asked;
  assertFailure(await finish('000000x'), 401, 'totp_required');
  assertFailure(await finish(), 401, 'totp_required');
  assert.equal(asked.progress, progress, 'a request without the code does not prolong the sign-in');
  assert.equal((await asked.get('/v1/session')).status, 401);
  await service.clock.advance({ seconds: 60 });
  const code = await currentCode(service, begun.secret);
  assert.equal((await finish(code)).status, 200);

  idp.forge = (claims) => ({ ...claims, amr: ['pwd', 'mfa'] });
  assert.equal((await signIn('ann')).status, 200);
  idp.forge = null;
});

test('failures count against the limit on failed authentications, and are logged for programs that block addresses', async () => {
  await service.logged(/"event":"log_in\.refused","way":"oidc","client":"127\.0\.0\.1"/);
  const rows = await service.sql('select m::text as text from member_identities m');
  assert.ok(rows.length > 0 && !service.logs.includes('secret-of-the-client'));
  for (const [, query = ''] of service.logs.matchAll(/[?&]code=([\w-]+)/g)) assert.fail(query);
});
