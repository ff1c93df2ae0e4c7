/** Claims in the different forms that providers write. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lacksClaims, readAccount, roleOf } from './claims.ts';

const ID = { iss: 'https://login.example', sub: '248289761001' };
const read = (idToken: object, userInfo: object = {}, path = ['groups']) =>
  readAccount({ idToken: { ...ID, ...idToken }, userInfo: { ...userInfo } }, path);

test('groups are a list, one name, the keys of an object, or at a path', () => {
  assert.deepEqual(read({ groups: ['a', 7, null, 'b'] }).groups, ['a', 'b']);
  assert.deepEqual(read({ groups: 'a' }).groups, ['a']);
  const zitadel = { 'urn:zitadel:iam:org:project:roles': { admin: { 1: 'acme.example' } } };
  assert.deepEqual(read(zitadel, {}, ['urn:zitadel:iam:org:project:roles']).groups, ['admin']);
  const keycloak = { realm_access: { roles: ['a'] } };
  assert.deepEqual(read(keycloak, {}, ['realm_access', 'roles']).groups, ['a']);
  assert.deepEqual(read({ groups: 5 }, {}, ['groups', 'length']).groups, []);
  assert.deepEqual(read({}, {}, ['constructor', 'name']).groups, []);
});

test('an address is verified only by the claim that comes with it', () => {
  const { email, isEmailVerified } = read({ email: 'a@b.test', email_verified: true });
  assert.deepEqual({ email, isEmailVerified }, { email: 'a@b.test', isEmailVerified: true });
  assert.equal(read({}, { email: 'a@b.test', email_verified: 'true' }).isEmailVerified, true);
  for (const value of [undefined, false, 'false', 1, 'yes']) {
    assert.equal(read({ email: 'a@b.test', email_verified: value }).isEmailVerified, false);
  }
  assert.equal(read({ email: 'a@b.test' }, { email_verified: true }).isEmailVerified, false);
  assert.equal(read({ email: ['a@b.test'] }).email, null);
});

test('a name has no control characters and at most 100 characters', () => {
  assert.equal(read({ name: ' Jo\u0000\n\u202E Doe ' }).name, 'Jo Doe');
  assert.equal(read({ name: 'é'.repeat(200) }).name!.length, 100);
  assert.equal(read({ name: ' ', preferred_username: 'jo' }).name, 'jo');
  assert.equal(read({ name: 7 }).name, null);
});

test('the ID token has precedence over the UserInfo endpoint, which is asked only for what is missing', () => {
  assert.equal(read({ email: 'a@b.test' }, { email: 'c@d.test', sub: 'other' }).email, 'a@b.test');
  assert.equal(read({}, { sub: 'other', iss: 'https://other.example' }).subject, ID.sub);
  assert.equal(lacksClaims({ email: 'a', name: 'b' }, null), false);
  assert.equal(lacksClaims({ email: 'a', name: 'b' }, ['groups']), true);
  assert.equal(lacksClaims({ email: 'a', name: 'b', groups: [] }, ['groups']), false);
  assert.equal(lacksClaims({ name: 'b' }, null), true);
});

test('only `mfa` among the methods of the provider is a second factor', () => {
  assert.equal(read({ amr: ['pwd', 'mfa'] }).hasSecondFactor, true);
  for (const amr of [undefined, 'mfa', ['pwd'], ['otp']]) {
    assert.equal(read({ amr }).hasSecondFactor, false);
  }
});

test('the highest role of the groups counts', () => {
  const rules = [
    { role: 'viewer', groups: ['all'] },
    { role: 'admin', groups: ['ops', 'it'] },
  ] as const;
  assert.equal(roleOf(['all', 'it'], rules), 'admin');
  assert.equal(roleOf(['all'], rules), 'viewer');
  assert.equal(roleOf(['All'], rules), null);
});
