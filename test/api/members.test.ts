/** Members, their roles, and invitations. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { Browser, memberOf, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const env = { LETTERHAUS_LIMIT_AUTH: '1000/60' };
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

type Body = ApiResponse['body'];

const invite = (by: Browser, email: string, role: string) =>
  by.post('/v1/invitations', { email, role });
const accept = (url: string, name = 'Jo Doe') =>
  new Browser(service).post('/v1/invitations/accept', {
    token: tokenOf(url),
    name,
    password: 'some horses and batteries',
  });
const memberNamed = async (email: string): Promise<Body> =>
  (await owner.get('/v1/members?limit=100')).body.data.find((one: Body) => one.email === email);
const setRole = (by: Browser, id: string, role: string) =>
  by.request('PATCH', `/v1/members/${id}`, { body: { role } });

test('an invitation makes one member, who signs in with a password', async () => {
  const invited = await invite(owner, 'jo@acme.test', 'developer');
  assert.equal(invited.status, 201, invited.text);
  const { url, mailed, ...invitation } = invited.body;
  assert.equal(mailed, false);
  assert.match(url, /\/sign-in#invitation=[\w-]{43}$/);
  assert.match(invitation.id, UUID_V7);
  assert.match(invitation.expires_at, TIME);
  const { body: open } = await owner.get('/v1/invitations');
  assert.deepEqual(open, { object: 'list', data: [invitation], has_more: false });

  const responses = await Promise.all([accept(url), accept(url), accept(url)]);
  const joined = responses.filter(({ status }) => status === 200);
  assert.equal(joined.length, 1);
  for (const response of responses) {
    if (response !== joined[0])
      assertFailure(response, 401, 'authentication_error', /was used, revoked or has expired/);
  }
  const { role, email } = joined[0]!.body.member;
  assert.deepEqual({ role, email }, { role: 'developer', email: 'jo@acme.test' });
  assert.deepEqual((await owner.get('/v1/invitations')).body.data, []);

  const browser = new Browser(service);
  const login = { email: 'Jo@Acme.test', password: 'some horses and batteries' };
  assert.equal((await browser.signIn(login)).status, 200);
  const { object, id, created_at, last_signed_in_at, etag, ...rest } =
    await memberNamed('jo@acme.test');
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.equal(object, 'member');
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  assert.match(last_signed_in_at, TIME);
  assert.deepEqual(rest, {
    email: 'jo@acme.test',
    name: 'Jo Doe',
    role: 'developer',
    projects: null,
  });
  const again = await invite(owner, 'JO@acme.test', 'viewer');
  assertFailure(again, 409, 'conflict', /signs in with this address already/);
});

test('an invitation ends when it is revoked or replaced, and after a week', async () => {
  const { body: first } = await invite(owner, 'ann@acme.test', 'viewer');
  const { body: second } = await invite(owner, 'Ann@acme.test', 'viewer');
  assertFailure(await accept(first.url), 401, 'authentication_error');
  const revoke = (id: string) => owner.request('DELETE', `/v1/invitations/${id}`);
  assertFailure(await revoke(first.id), 404, 'not_found');
  assert.equal((await revoke(second.id)).status, 200);
  assertFailure(await accept(second.url), 401, 'authentication_error');
  const { body: third } = await invite(owner, 'ann@acme.test', 'viewer');
  await service.clock.advance({ hours: 6 * 24 });
  assert.equal((await owner.get('/v1/invitations')).body.data.length, 1);
  await service.clock.advance({ hours: 25 });
  assertFailure(
    await accept(third.url),
    401,
    'authentication_error',
    /was used, revoked or has expired/,
  );
  await owner.signIn(OWNER);
  assert.deepEqual((await owner.get('/v1/invitations')).body.data, []);
});

test('a viewer reads, and changes nothing', async () => {
  const viewer = await memberOf(service, owner, 'viewer');
  for (const path of ['emails', 'domains', 'webhooks', 'templates', 'suppressions', 'members']) {
    assert.equal((await viewer.get(`/v1/${path}`)).status, 200, path);
  }
  const changes = [
    viewer.post('/v1/emails', EMAIL),
    viewer.post('/v1/domains', { name: 'viewer.test' }),
    viewer.post('/v1/templates', { name: 'x' }),
    viewer.post('/v1/api-keys', { name: 'x' }),
    viewer.post('/v1/projects', { name: 'x' }),
    invite(viewer, 'friend@acme.test', 'viewer'),
    viewer.request('DELETE', '/v1/suppressions/jo@acme.test'),
  ];
  for (const response of await Promise.all(changes)) {
    assertFailure(response, 403, 'authorization_error', /^Your role is viewer/);
  }
  assertFailure(await viewer.get('/v1/invitations'), 403, 'authorization_error');
});

test('an admin manages members, except owners', async () => {
  const admin = await memberOf(service, owner, 'admin');
  const { id: ownerId } = await memberNamed(OWNER.email);
  const { id } = await memberNamed('jo@acme.test');
  assert.equal((await setRole(admin, id, 'viewer')).body.role, 'viewer');
  const refused = [
    setRole(admin, id, 'owner'),
    setRole(admin, ownerId, 'viewer'),
    admin.request('DELETE', `/v1/members/${ownerId}`),
    invite(admin, 'boss@acme.test', 'owner'),
  ];
  for (const response of await Promise.all(refused)) {
    assertFailure(response, 403, 'authorization_error', /^Only an owner/);
  }
  const { body: boss } = await invite(owner, 'boss@acme.test', 'owner');
  const revoked = await admin.request('DELETE', `/v1/invitations/${boss.id}`);
  assertFailure(revoked, 404, 'not_found');
  assertFailure(await setRole(admin, UNKNOWN_ID, 'viewer'), 404, 'not_found');
  assertFailure(await setRole(admin, 'x', 'viewer'), 404, 'not_found');
  assert.equal((await admin.request('DELETE', `/v1/members/${id}`)).status, 200);
});

test('the last owner stays, also when two owners remove each other at once', async () => {
  const { id: ownerId } = await memberNamed(OWNER.email);
  assertFailure(await setRole(owner, ownerId, 'admin'), 409, 'conflict', /the only owner/);
  const remove = (by: Browser, id: string) => by.request('DELETE', `/v1/members/${id}`);
  assertFailure(await remove(owner, ownerId), 409, 'conflict');
  const second = await memberOf(service, owner, 'owner');
  const { id: secondId } = (await second.get('/v1/session')).body.member;
  const responses = await Promise.all([
    setRole(owner, secondId, 'admin'),
    setRole(second, ownerId, 'admin'),
  ]);
  assert.equal(responses.filter(({ status }) => status === 200).length, 1);
  const owners = await service.sql(`select id from members where role = 'owner'`);
  assert.equal(owners.length, 1);
  await service.sql(`update members set role = 'owner' where id = $1`, [ownerId]);
});

test('a member who is removed has no session any more, and sends nothing', async () => {
  const developer = await memberOf(service, owner, 'developer');
  assert.equal((await developer.post('/v1/emails', EMAIL)).status, 202);
  const { id } = (await developer.get('/v1/session')).body.member;
  const { cookie } = developer;
  assert.equal((await owner.request('DELETE', `/v1/members/${id}`)).status, 200);
  for (const [method, path] of [
    ['GET', '/v1/session'],
    ['POST', '/v1/emails'],
  ] as const) {
    const body = method === 'POST' ? { body: EMAIL } : {};
    const response = await developer.request(method, path, {
      ...body,
      headers: { cookie: cookie! },
    });
    assertFailure(response, 401, 'authentication_error');
  }
  const keys = await service.sql('select revoked_at from api_keys where member_id = $1', [id]);
  assert.equal(keys.length, 1);
  assert.ok(keys[0].revoked_at);
});

test('members and invitations have pages', async () => {
  for (const n of [1, 2, 3]) await invite(owner, `page${n}@acme.test`, 'viewer');
  for (const path of ['/v1/invitations', '/v1/members']) {
    const all = (await owner.get(path)).body.data;
    assert.ok(all.length >= 3);
    const first = (await owner.get(`${path}?limit=1`)).body;
    assert.deepEqual(first, { object: 'list', data: [all[0]], has_more: true });
    const next = (await owner.get(`${path}?limit=1&after=${all[0].id}`)).body;
    assert.deepEqual(next.data, [all[1]]);
    const back = (await owner.get(`${path}?limit=1&before=${all[1].id}`)).body;
    assert.deepEqual(back.data, [all[0]]);
  }
});

test('resources of another organization are not found', async () => {
  const other = UNKNOWN_ID.replace('21aa', '21ab');
  await service.sql(`insert into organizations values ($1, 'Other', app_now())`, [other]);
  const project = UNKNOWN_ID.replace('21aa', '21ac');
  await service.sql(`insert into projects values ($1, $2, 'Other', app_now())`, [project, other]);
  const stranger = UNKNOWN_ID.replace('21aa', '21ad');
  await service.sql(
    `insert into members (id, organization_id, email, email_key, name, role, password, created_at)
     values ($1, $2, 'x@other.test', 'x@other.test', 'X', 'viewer', '', app_now())`,
    [stranger, other],
  );
  const invitation = UNKNOWN_ID.replace('21aa', '21ae');
  await service.sql(
    `insert into invitations values
       ($1, $2, 'y@other.test', 'y@other.test', 'viewer', '\\x00', app_now(), app_now() + interval '1 day')`,
    [invitation, other],
  );
  const body = { role: 'admin', name: 'Mine' };
  const foreign = [
    owner.request('PATCH', `/v1/members/${stranger}`, { body: { role: body.role } }),
    owner.request('DELETE', `/v1/members/${stranger}`),
    owner.request('DELETE', `/v1/invitations/${invitation}`),
    owner.request('PATCH', `/v1/projects/${project}`, { body: { name: body.name } }),
    owner.get('/v1/emails', { 'letterhaus-project': project }),
  ];
  for (const response of await Promise.all(foreign)) assertFailure(response, 404, 'not_found');
  for (const path of ['members', 'invitations']) {
    assert.doesNotMatch((await owner.get(`/v1/${path}?limit=100`)).text, /other\.test/);
  }
  assert.doesNotMatch((await owner.get('/v1/session')).text, /Other/);
});
