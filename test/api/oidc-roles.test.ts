/** Roles from groups of the identity provider, and passwords that are off (LETTERHAUS_OIDC_ROLES, _JOIN, _ONLY). */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { startIdentityProvider } from '../support/identity-provider.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const idp = await startIdentityProvider();
const service = await startService({
  env: {
    ...idp.env,
    LETTERHAUS_LIMIT_AUTH: '1000/60',
    LETTERHAUS_OIDC_ROLES: 'owner=mail-owners; admin=ops; developer=/eng,support',
    LETTERHAUS_OIDC_JOIN: 'roles',
    LETTERHAUS_OIDC_ONLY: '1',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await idp[Symbol.asyncDispose]();
});
idp.serve(service.url);

function setGroups(login: string, groups: string[], email = `${login}@acme.test`): void {
  idp.accounts.set(login, { email, email_verified: true, name: login, groups });
}

async function signIn(login: string, browser = new Browser(service)): Promise<ApiResponse> {
  const begun = await browser.post('/v1/session/oidc/start', {});
  const response = await idp.authorize(begun.body.url, login);
  return browser.post('/v1/session/oidc', { response });
}

const roleOf = async (login: string, browser?: Browser): Promise<string> => {
  const response = await signIn(login, browser);
  assert.equal(response.status, 200, response.text);
  return response.body.member.role;
};

setGroups('ada', ['ops']);
const early = await signIn('ada');
const owner = await ownerOf(service);

test('without an owner, only an account whose groups make it one gets in', () => {
  assertFailure(early, 401, 'authentication_error', /ask for an invitation/);
});

test('everybody with a group that has a role becomes a member, with the highest one', async () => {
  setGroups('ada', ['support', 'ops', 'other']);
  assert.equal(await roleOf('ada'), 'admin');
  setGroups('guest', ['other']);
  assertFailure(await signIn('guest'), 401, 'authentication_error', /in no group that may use/);
  assert.equal((await owner.get('/v1/members')).body.data.length, 2);
});

test('a group that was removed lowers the role at the next sign-in, and without a group sessions end', async () => {
  const browser = new Browser(service);
  setGroups('ada', ['/eng']);
  assert.equal(await roleOf('ada', browser), 'developer');
  const { data } = (await owner.get('/v1/audit_log?limit=5')).body;
  const change = data.find(({ action }: { action: string }) => action === 'updateMember');
  assert.equal(change.actor.name, 'identity provider Acme Login');
  setGroups('ada', []);
  assertFailure(await signIn('ada'), 401, 'authentication_error', /in no group/);
  assert.equal((await browser.get('/v1/session')).status, 401);
  setGroups('ada', ['ops']);
  assert.equal(await roleOf('ada'), 'admin');
});

test('the only owner stays owner, also with the groups of a developer', async () => {
  setGroups('olga', ['support'], OWNER.email);
  assert.equal(await roleOf('olga'), 'owner');
  setGroups('ada', ['mail-owners']);
  assert.equal(await roleOf('ada'), 'owner');
  assert.equal(await roleOf('olga'), 'developer');
  setGroups('olga', ['mail-owners'], OWNER.email);
  assert.equal(await roleOf('olga'), 'owner');
});

test('an invitation gives way to the role of the groups', async () => {
  const invited = await owner.post('/v1/invitations', { email: 'kim@acme.test', role: 'viewer' });
  assert.equal(invited.status, 201, invited.text);
  setGroups('kim', ['/eng']);
  assert.equal(await roleOf('kim'), 'developer');
});

test('a password is off for members who have signed in with the provider; a link of the operator still signs in', async () => {
  const refused = await new Browser(service).signIn(OWNER);
  assertFailure(refused, 401, 'authentication_error', /your password is off/);
  const wrong = await new Browser(service).signIn({ ...OWNER, password: 'a wrong password' });
  assertFailure(wrong, 401, 'authentication_error', /^The email address or the password is wrong/);
  const link = await service.cliJson('owner', 'reset', OWNER.email);
  const browser = new Browser(service);
  const reset = { token: tokenOf(link.sign_in_url), password: OWNER.password };
  assert.equal((await browser.post('/v1/session/reset', reset)).status, 200);

  const invited = await browser.post('/v1/invitations', { email: 'vi@acme.test', role: 'viewer' });
  const login = { token: tokenOf(invited.body.url), name: 'Vi', password: OWNER.password };
  assert.equal((await new Browser(service).post('/v1/invitations/accept', login)).status, 200);
  const notLinked = { email: 'vi@acme.test', password: OWNER.password };
  assert.equal((await new Browser(service).signIn(notLinked)).status, 200);
});
