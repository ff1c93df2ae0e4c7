/** The variables of the identity provider (LETTERHAUS_OIDC_*). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig, type System } from './config.ts';
import type { Env } from './env-file.ts';
import type { OidcConfig } from './oidc.ts';

const SYSTEM: System = { isRoot: false, hostname: 'a', cloneDir: '/srv/letterhaus', localIps: [] };

function oidcOf(env: Env): OidcConfig | null {
  const outcome = readConfig(env, SYSTEM);
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.problems.join());
  return outcome.config.oidc;
}

function problemsOf(env: Env): string[] {
  const outcome = readConfig(env, SYSTEM);
  return outcome.ok ? [] : outcome.problems;
}

test('an identity provider needs an issuer and a client; roles and claims have a grammar', () => {
  const provider = {
    LETTERHAUS_OIDC_ISSUER: 'https://login.example.com/o/mail/',
    LETTERHAUS_OIDC_CLIENT_ID: 'mail',
  };
  assert.equal(oidcOf({ LETTERHAUS_OIDC_CLIENT_ID: 'mail' }), null);
  assert.deepEqual(oidcOf(provider), {
    issuer: 'https://login.example.com/o/mail/',
    clientId: 'mail',
    clientSecret: null,
    name: 'login.example.com',
    scope: 'openid email profile',
    groupsClaim: ['groups'],
    roles: null,
    admits: 'invited',
    trustsEmail: false,
    endsPasswords: false,
  });
  const more = oidcOf({
    ...provider,
    LETTERHAUS_OIDC_ROLES: 'owner = a b ,c; viewer=/x/y=z',
    LETTERHAUS_OIDC_ROLE_CLAIM: '/resource_access/mail.acme/ro~1les',
    LETTERHAUS_OIDC_JOIN: 'roles',
    LETTERHAUS_OIDC_SCOPES: 'openid  groups',
    LETTERHAUS_OIDC_CLIENT_SECRET: 'secret of the client',
    LETTERHAUS_OIDC_NAME: 'Acme',
    LETTERHAUS_OIDC_TRUST_EMAIL: 'on',
    LETTERHAUS_OIDC_ONLY: 'on',
  });
  assert.deepEqual(more?.roles, [
    { role: 'owner', groups: ['a b', 'c'] },
    { role: 'viewer', groups: ['/x/y=z'] },
  ]);
  assert.deepEqual(more?.groupsClaim, ['resource_access', 'mail.acme', 'ro/les']);
  assert.equal(more?.admits, 'mapped');
  assert.equal(more?.scope, 'openid groups');
  assert.equal(more?.clientSecret, 'secret of the client');
  assert.equal(more?.name, 'Acme');
  assert.equal(more?.trustsEmail && more.endsPasswords, true);
  for (const [name, value] of [
    ['ISSUER', 'http://login.example.com'],
    ['ISSUER', 'https://login.example.com/?x'],
    ['ISSUER', 'https://login.microsoftonline.com/common/v2.0'],
    ['NAME', 'x'.repeat(41)],
    ['SCOPES', 'email profile'],
    ['ROLES', 'boss=a'],
    ['ROLES', 'owner='],
    ['ROLES', 'owner=a;owner=b'],
    ['ROLE_CLAIM', 'a..b'],
    ['JOIN', 'everybody'],
    ['JOIN', 'roles'],
  ] as const) {
    const problems = problemsOf({ ...provider, [`LETTERHAUS_OIDC_${name}`]: value });
    assert.match(problems.join(), new RegExp(`^LETTERHAUS_OIDC_${name}: `), `${name} ${value}`);
  }
  const { LETTERHAUS_OIDC_ISSUER } = provider;
  assert.match(problemsOf({ LETTERHAUS_OIDC_ISSUER }).join(), /^LETTERHAUS_OIDC_CLIENT_ID: it is/);
});
