/** Maxima of keys, projects, members and suppressions, and the remedy that each refusal names. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { KEYS_MAX, MEMBERS_MAX, PROJECTS_MAX } from '../../src/accounts/limits/maximum-store.ts';
import { assertFailure } from '../support/api.ts';
import { ownerOf } from '../support/browser.ts';
import { waitFor } from '../support/wait.ts';
import { startService } from '../support/service.ts';

const service = await startService({ env: { LETTERHAUS_SUPPRESSIONS_MAX: '5' } });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
const [project] = (await service.cliJson('projects', 'list')).data;

test('a project has a maximum of valid keys, by creation and by rotation, until one is revoked', async () => {
  await service.sql(
    `insert into api_keys (project_id, id, environment, name, sha256, hint, permission, created_at)
     select $1, uuidv7(), 'test', 'many', sha256(number::text::bytea), 'hint', 'full_access', now()
       from generate_series(2, $2::int) number`,
    [project.id, KEYS_MAX],
  );
  const create = (path: string) => service.request('POST', path, { body: { name: 'another' } });
  const full = /at most 1000 valid API keys in each environment; revoke one/;
  assertFailure(await create('/v1/api-keys'), 409, 'conflict', full);
  assert.equal((await create('/api-keys')).status, 422, 'as the root mount responds to conflicts');
  const [one] = (await service.request('GET', '/v1/api-keys?limit=1')).body.data;
  const rotated = await service.request('POST', `/v1/api-keys/${one.id}/rotate`, { body: {} });
  assertFailure(rotated, 409, 'conflict', full);
  await service.request('DELETE', `/v1/api-keys/${one.id}`);
  assert.equal((await create('/v1/api-keys')).status, 201);
});

test('an organization has a maximum of projects, and the operator may create more', async () => {
  await service.sql(
    `insert into projects (id, organization_id, name, created_at)
     select uuidv7(), organization_id, 'many', now()
       from projects, generate_series(2, $2::int) where id = $1`,
    [project.id, PROJECTS_MAX],
  );
  const refused = await owner.post('/v1/projects', { name: 'Another' });
  assertFailure(refused, 409, 'conflict', /at most 100 projects; ask the operator/);
  await service.cliJson('projects', 'create', 'Another');
});

test('an organization has a maximum of members and invitations, and one of them can be repeated', async () => {
  await service.sql(
    `insert into invitations (id, organization_id, email, email_key, role, sha256, created_at, expires_at)
     select uuidv7(), organization_id, number || '@acme.test', number || '@acme.test', 'viewer',
            sha256(number::text::bytea), now(), now() + interval '1 day'
       from projects, generate_series(2, $2::int) number where id = $1`,
    [project.id, MEMBERS_MAX],
  );
  const invite = (email: string) => owner.post('/v1/invitations', { email, role: 'viewer' });
  const refused = await invite('another@acme.test');
  assertFailure(refused, 409, 'conflict', /at most 500 members and invitations; remove a member/);
  assert.equal((await invite('2@acme.test')).status, 201);
});

test('a project has a maximum of suppressions, and an existing entry is no addition', async () => {
  const add = (address: string) =>
    service.request('POST', '/v1/suppressions', { body: { address } });
  const load = (count: number) =>
    service.request('POST', '/v1/suppressions/import', {
      headers: { 'content-type': 'text/csv' },
      body: Array.from({ length: count }, (_, n) => `jo${n}@acme.test\n`).join(''),
    });
  const full = /at most 5 suppressions.*remove some first.*LETTERHAUS_SUPPRESSIONS_MAX/;
  const whole = await load(6);
  assertFailure(whole, 409, 'conflict', /at most 5 suppressions.*0 addresses were added before/);
  assert.equal((await load(5)).body.added, 5);
  assertFailure(await add('another@acme.test'), 409, 'conflict', full);
  assert.equal((await add('jo0@acme.test')).status, 200);
  assert.equal((await load(5)).body.already_there, 5);
  // The command line has no maximum.
  const words = ['add', 'operator@acme.test', '--project', project.id, '--environment', 'test'];
  assert.equal((await service.cli('suppressions', ...words)).code, 0);
  await service.request('DELETE', '/v1/suppressions/operator@acme.test');
  const batch = { emails: ['jo1@acme.test', 'another@acme.test'] };
  const several = await service.request('POST', '/suppressions/batch/add', { body: batch });
  assert.equal(several.status, 422, 'as the root mount responds to conflicts');
  await service.request('DELETE', '/v1/suppressions/jo0@acme.test');
  await waitFor(async () => (await add('another@acme.test')).status === 201, { what: 'room' });
});
