/** Members who sign in with the identity provider only (LETTERHAUS_OIDC_ONLY): a passkey is no way around it. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Authenticator } from '../support/authenticator.ts';
import { Browser, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { startIdentityProvider } from '../support/identity-provider.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const ORIGIN = 'https://mail.acme.test';
const SITE = { origin: ORIGIN };
const { password } = OWNER;
const idp = await startIdentityProvider();
const service = await startService({
  env: {
    ...idp.env,
    LETTERHAUS_LIMIT_AUTH: '1000/60',
    LETTERHAUS_OIDC_ONLY: '1',
    LETTERHAUS_PUBLIC_URL: ORIGIN,
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await idp[Symbol.asyncDispose]();
});
idp.serve(ORIGIN);
const owner = await ownerOf(service);

async function signInAtProvider(login: string, browser = new Browser(service)) {
  const begun = await browser.post('/v1/session/oidc/start', {});
  const response = await idp.authorize(begun.body.url, login);
  return browser.post('/v1/session/oidc', { response });
}

const beginPasskey = (by: Browser): Promise<ApiResponse> =>
  by.post('/v1/session/passkeys/start', { password });

async function addPasskey(by: Browser): Promise<Authenticator> {
  const authenticator = new Authenticator();
  const { body: creation } = await beginPasskey(by);
  const credential = authenticator.create(creation, SITE);
  const added = await by.post('/v1/session/passkeys', { name: 'Phone', ...credential });
  assert.equal(added.status, 201, added.text);
  return authenticator;
}

async function signInWith(authenticator: Authenticator): Promise<ApiResponse> {
  const browser = new Browser(service);
  const { body: request } = await browser.post('/v1/session/passkey/start', {});
  return browser.post('/v1/session/passkey', authenticator.use(request, SITE));
}

test('a passkey signs in until its member has signed in with the provider, and none is added after that', async () => {
  const authenticator = await addPasskey(owner);
  assert.equal((await signInWith(authenticator)).status, 200);
  idp.accounts.set('olga', { email: OWNER.email, email_verified: true });
  assert.equal((await signInAtProvider('olga')).status, 200);
  assertFailure(await signInWith(authenticator), 401, 'authentication_error', /passkeys are off/);
  assertFailure(await beginPasskey(owner), 409, 'conflict', /passkeys are off/);
});

test('where a second factor is required, a member with such a passkey sets up another one after the provider', async () => {
  const email = 'vi@acme.test';
  const invited = await owner.post('/v1/invitations', { email, role: 'viewer' });
  const browser = new Browser(service);
  const who = { token: tokenOf(invited.body.url), name: 'Vi', password };
  assert.equal((await browser.post('/v1/invitations/accept', who)).status, 200);
  await addPasskey(browser);
  await service.cliJson('members', 'policy', '--second-factor', 'required');
  assertFailure(await browser.signIn({ email, password }), 401, 'authentication_error', /passkey/);
  idp.accounts.set('vi', { email, email_verified: true });
  const signedIn = await signInAtProvider('vi', browser);
  assert.equal(signedIn.status, 200, signedIn.text);
  assert.equal(signedIn.body.must_enrol, true);
  assertFailure(await browser.get('/v1/emails'), 403, 'authorization_error', /second factor/);
});
