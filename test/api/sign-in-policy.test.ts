/** A second factor that the owners require of every member. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Authenticator } from '../support/authenticator.ts';
import { Browser, memberOf, OWNER, ownerOf, currentCode, tokenOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const ORIGIN = 'https://mail.acme.test';
const { password } = OWNER;
const service = await startService({
  env: {
    LETTERHAUS_LIMIT_AUTH: '1000/60',
    LETTERHAUS_PUBLIC_URL: ORIGIN,
    LETTERHAUS_SECRET_KEY: 's'.repeat(40),
  },
});
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

const setPolicy = (by: Browser, isRequired: boolean, tag?: string): Promise<ApiResponse> =>
  by.request('PATCH', '/v1/operator/sign-in-policy', {
    body: { second_factor_required: isRequired },
    ...(tag !== undefined && { headers: { 'if-match': tag } }),
  });

async function switchOn(by: Browser): Promise<string> {
  const { body } = await by.post('/v1/session/totp', { password });
  await service.clock.advance({ seconds: 60 });
  const code = await currentCode(service, body.secret);
  const confirmed = await by.post('/v1/session/totp/confirm', { code });
  assert.equal(confirmed.status, 200, confirmed.text);
  return body.secret;
}

async function addPasskey(by: Browser, authenticator: Authenticator): Promise<string> {
  const { body } = await by.post('/v1/session/passkeys/start', { password });
  const credential = authenticator.create(body, { origin: ORIGIN });
  const added = await by.post('/v1/session/passkeys', { name: 'Key', ...credential });
  assert.equal(added.status, 201, added.text);
  return added.body.id;
}

const emailOf = async (browser: Browser): Promise<string> =>
  (await browser.get('/v1/session')).body.member.email;

const developer = await memberOf(service, owner, 'developer');
const viewer = await memberOf(service, owner, 'viewer');
const [developerEmail, viewerEmail] = [await emailOf(developer), await emailOf(viewer)];

test('only an owner with a second factor requires one of all, which ends the sessions of the others', async () => {
  assertFailure(await setPolicy(viewer, true), 403, 'authorization_error');
  assertFailure(await setPolicy(owner, true), 409, 'conflict', /no second factor yourself/);
  await switchOn(owner);
  const { body: optional } = await owner.get('/v1/operator/sign-in-policy');
  const { body, headers } = await setPolicy(owner, true, optional.etag);
  assert.equal(headers.get('etag'), body.etag);
  assert.notEqual(body.etag, optional.etag);
  const late = await setPolicy(owner, false, optional.etag);
  assertFailure(late, 412, 'precondition_failed');
  assert.equal(body.second_factor_required, true);
  assert.equal(body.members_without_second_factor, 2);
  assert.equal((await developer.get('/v1/session')).status, 401);
  assert.equal((await owner.get('/v1/emails')).status, 200);
  const [newest] = (await owner.get('/v1/audit_log?limit=1')).body.data;
  assert.equal(newest.action, 'updateSignInPolicy');
});

test('a member without one can only set it up after signing in, and then do everything', async () => {
  const signedIn = await developer.signIn({ email: developerEmail, password });
  assert.equal(signedIn.body.must_enrol, true);
  for (const path of ['emails', 'members', 'views', 'events', 'templates']) {
    const refused = await developer.get(`/v1/${path}`);
    assertFailure(refused, 403, 'authorization_error', /requires a second factor/);
  }
  await switchOn(developer);
  assert.equal((await developer.get('/v1/session')).body.must_enrol, false);
  assert.equal((await developer.get('/v1/emails')).status, 200);
  const off = await developer.request('DELETE', '/v1/session/totp', { body: { password } });
  assertFailure(off, 409, 'conflict', /add a passkey before/);
});

test('a passkey is a second factor, and then a password alone does not sign in', async () => {
  const authenticator = new Authenticator();
  await viewer.signIn({ email: viewerEmail, password });
  const id = await addPasskey(viewer, authenticator);
  assert.equal((await viewer.get('/v1/emails')).status, 200);
  const stolen = await new Browser(service).signIn({ email: viewerEmail, password });
  assertFailure(stolen, 401, 'authentication_error', /yours is a passkey/);
  const browser = new Browser(service);
  const { body: request } = await browser.post('/v1/session/passkey/start', {});
  const used = authenticator.use(request, { origin: ORIGIN });
  assert.equal((await browser.post('/v1/session/passkey', used)).body.must_enrol, false);
  const removed = await browser.request('DELETE', `/v1/session/passkeys/${id}`, {
    body: { password },
  });
  assertFailure(removed, 409, 'conflict', /set up another one/);
  await switchOn(browser);
  const again = await browser.request('DELETE', `/v1/session/passkeys/${id}`, {
    body: { password },
  });
  assert.equal(again.status, 200, again.text);
});

test('new members set one up when they join, and a link of the operator lets a member do it again', async () => {
  const invited = await owner.post('/v1/invitations', { email: 'new@acme.test', role: 'viewer' });
  const browser = new Browser(service);
  const joining = { token: tokenOf(invited.body.url), name: 'New', password };
  const joined = await browser.post('/v1/invitations/accept', joining);
  assert.equal(joined.body.must_enrol, true);
  assertFailure(await browser.get('/v1/emails'), 403, 'authorization_error');
  const link = await service.cliJson('owner', 'reset', developerEmail, '--remove-totp');
  const reset = { token: tokenOf(link.sign_in_url), password };
  assert.equal((await developer.post('/v1/session/reset', reset)).body.must_enrol, true);
});

test('a passkey that cannot be added is no second factor', async () => {
  const authenticator = new Authenticator();
  await addPasskey(owner, authenticator);
  const { body } = await developer.post('/v1/session/passkeys/start', { password });
  const credential = authenticator.create(body, { origin: ORIGIN });
  const refused = await developer.post('/v1/session/passkeys', { name: 'Key', ...credential });
  assertFailure(refused, 409, 'conflict');
  assert.equal((await developer.get('/v1/session')).body.must_enrol, true);
});

test('the command line shows and changes it, and optional means as before', async () => {
  const shown = await service.cliJson('members', 'policy');
  assert.equal(shown.second_factor_required, true);
  const changed = await service.cliJson('members', 'policy', '--second-factor', 'optional');
  assert.equal(changed.second_factor_required, false);
  assert.equal((await developer.get('/v1/emails')).status, 200);
  const text = await service.cli('members', 'policy', '--second-factor', 'required');
  assert.match(text.stdout, /Every member needs a second factor/);
  assert.equal((await setPolicy(owner, false)).body.second_factor_required, false);
});
