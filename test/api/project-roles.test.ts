/** Members with roles in some projects: they see and change nothing of the others, and nothing of the organization. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, UNKNOWN_ID } from '../support/api.ts';
import { openEventStream } from '../support/event-stream.ts';
import { Browser, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const env = { LETTERHAUS_LIMIT_AUTH: '1000/60', LETTERHAUS_LIMIT_SENDING: '1000/60' };
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

type Body = ApiResponse['body'];
type Rights = { role?: string; projects?: { id: string; role: string }[] | null };

const first = (await owner.get('/v1/session')).body.projects[0].id as string;
const second = await newProject('Shop');
const third = await newProject('Blog');

async function newProject(name: string): Promise<string> {
  const { body, status, text } = await owner.post('/v1/projects', { name });
  assert.equal(status, 201, text);
  return body.id;
}

let people = 0;

async function memberWith(rights: Rights): Promise<{ browser: Browser; id: string }> {
  people += 1;
  const invited = await owner.post('/v1/invitations', { email: `p${people}@acme.test`, ...rights });
  assert.equal(invited.status, 201, invited.text);
  const browser = new Browser(service);
  const who = { token: tokenOf(invited.body.url), name: `P ${people}`, password: OWNER.password };
  const joined = await browser.post('/v1/invitations/accept', who);
  assert.equal(joined.status, 200, joined.text);
  return { browser, id: joined.body.member.id };
}

const inProject = (project: string) => ({ 'letterhaus-project': project });
const setRights = (id: string, rights: Rights) =>
  owner.request('PATCH', `/v1/members/${id}`, { body: rights });
const idsOf = ({ body }: ApiResponse) => body.data.map(({ id }: Body) => id);

test('members who joined before, or with one role, have it in all projects', async () => {
  const { browser, id } = await memberWith({ role: 'developer' });
  for (const project of [first, second, third]) {
    assert.equal((await browser.get('/v1/api-keys', inProject(project))).status, 200);
  }
  const { body } = await owner.get('/v1/members?limit=100');
  const member = body.data.find((one: Body) => one.id === id);
  assert.deepEqual([member.role, member.projects], ['developer', null]);
  const [row] = await service.sql('select project_roles from members where id = $1', [id]);
  assert.equal(row.project_roles, null);
});

test('a member of one project sees this one only, in the session and in lists', async () => {
  const { browser } = await memberWith({ projects: [{ id: second, role: 'developer' }] });
  const session = (await browser.get('/v1/session')).body;
  assert.deepEqual(session.projects, [{ id: second, name: 'Shop', role: 'developer' }]);
  assert.deepEqual([session.member.role, session.member.has_all_projects], ['viewer', false]);
  assert.deepEqual(idsOf(await browser.get('/v1/projects')), [second]);
  assert.equal((await browser.get('/v1/api-keys')).status, 200, 'the default is its own project');
  for (const path of [
    'emails',
    'domains',
    'webhooks',
    'suppressions',
    'stats',
    'views',
    'limits',
  ]) {
    assert.equal((await browser.get(`/v1/${path}`, inProject(second))).status, 200, path);
    for (const other of [first, third, UNKNOWN_ID]) {
      const refused = await browser.get(`/v1/${path}`, inProject(other));
      assertFailure(refused, 404, 'not_found', /There is no project with this id/);
    }
  }
});

test('each project has its own role, and changes need the role there', async () => {
  const { browser } = await memberWith({
    projects: [
      { id: first, role: 'viewer' },
      { id: second, role: 'admin' },
    ],
  });
  const addDomain = (project: string, name: string) =>
    browser.post('/v1/domains', { name }, inProject(project));
  assert.equal((await addDomain(second, 'shop.test')).status, 201);
  assertFailure(await addDomain(first, 'shop.test'), 403, 'authorization_error', /role is viewer/);
  assertFailure(await addDomain(third, 'shop.test'), 404, 'not_found');
  const send = (project: string) => browser.post('/v1/emails', EMAIL, inProject(project));
  assertFailure(await send(first), 403, 'authorization_error');
  assertFailure(await send(third), 404, 'not_found');
  const key = await browser.post('/v1/api-keys', { name: 'own' }, inProject(second));
  assert.equal(key.status, 201, key.text);
});

test('an admin of a project has no rights in the organization or the installation', async () => {
  const { browser, id } = await memberWith({ projects: [{ id: first, role: 'admin' }] });
  const project = inProject(first);
  const refused = [
    browser.post('/v1/projects', { name: 'own' }, project),
    browser.request('PATCH', `/v1/projects/${first}`, { body: { name: 'x' }, headers: project }),
    browser.request('PATCH', `/v1/members/${id}`, { body: { role: 'admin', projects: null } }),
    browser.request('DELETE', `/v1/members/${id}`, { headers: project }),
    browser.post('/v1/invitations', { email: 'friend@acme.test', role: 'admin' }, project),
    browser.get('/v1/invitations', project),
    browser.get('/v1/audit_log', project),
    browser.get('/v1/operator/status', project),
    browser.get('/v1/operator/conditions', project),
    browser.get('/v1/operator/reconciliation', project),
  ];
  for (const response of await Promise.all(refused)) {
    assertFailure(response, 403, 'authorization_error', /Your role is viewer/);
  }
});

test('what concerns all projects of the organization is limited to the own ones', async () => {
  const { browser } = await memberWith({ projects: [{ id: second, role: 'admin' }] });
  const project = inProject(second);
  const to = 'delivered@simulator.test';
  await service.waitForStatus(await service.send({ to }), 'delivered');
  const path = `/v1/recipients/${to}/log?scope=organization`;
  assert.ok((await owner.get(path)).body.data.length > 0);
  assert.deepEqual((await browser.get(path, project)).body.data, []);
  const queue = await browser.get('/v1/queue?scope=organization', project);
  assertFailure(queue, 403, 'authorization_error', /some projects of the organization only/);
  assert.ok(!(await browser.get('/v1/queue', project)).text.includes(first));
  const held = browser.post('/v1/queue/hold', { all: true, scope: 'organization' }, project);
  assertFailure(await held, 403, 'authorization_error');
});

test('a member of a project sees who has a role there, and nobody else', async () => {
  const one = await memberWith({ projects: [{ id: third, role: 'viewer' }] });
  const beside = await memberWith({ projects: [{ id: third, role: 'admin' }] });
  const elsewhere = await memberWith({ projects: [{ id: second, role: 'viewer' }] });
  const seen = idsOf(await one.browser.get('/v1/members?limit=100'));
  const all = idsOf(await owner.get('/v1/members?limit=100'));
  assert.ok(seen.includes(one.id) && seen.includes(beside.id));
  assert.ok(!seen.includes(elsewhere.id) && all.includes(elsewhere.id));
});

test('a change of projects holds from the next request on, and ends streams and sending', async () => {
  const { browser, id } = await memberWith({ role: 'developer' });
  assert.equal((await browser.post('/v1/emails', EMAIL, inProject(first))).status, 202);
  await using stream = await openEventStream(service.url, { cookie: browser.cookie! });
  const changed = await setRights(id, { projects: [{ id: second, role: 'developer' }] });
  assert.deepEqual(
    [changed.body.role, changed.body.projects],
    ['viewer', [{ id: second, role: 'developer' }]],
  );
  assertFailure(await browser.post('/v1/emails', EMAIL, inProject(first)), 404, 'not_found');
  await stream.waitForEnd();
  const back = await setRights(id, { role: 'admin', projects: null });
  assert.deepEqual([back.body.role, back.body.projects], ['admin', null]);
  assert.equal((await browser.get('/v1/audit_log')).status, 200);
});

test('nobody gets all projects by leaving something out, and roles are checked by entry', async () => {
  const { id } = await memberWith({ projects: [{ id: second, role: 'viewer' }] });
  for (const [rights, message] of [
    [{}, /^role: is required/],
    [{ role: 'admin' }, /^role: holds in all projects/],
    [{ role: 'admin', projects: [{ id: second, role: 'viewer' }] }, /^role: holds in all/],
    [{ projects: [] }, /^projects: /],
    [{ projects: [{ id: second, role: 'owner' }] }, /^projects\[0\]\.role: /],
    [{ projects: [{ id: UNKNOWN_ID, role: 'viewer' }] }, /^projects\[0\]\.id: is not a project/],
    [
      {
        projects: [
          { id: second, role: 'viewer' },
          { id: second, role: 'admin' },
        ],
      },
      /^projects\[1\]\.id: is listed twice/,
    ],
  ] as const) {
    const changed = await setRights(id, rights as Rights);
    assertFailure(changed, 422, 'validation_error', message);
  }
  const invited = await owner.post('/v1/invitations', { email: 'nobody@acme.test' });
  assertFailure(invited, 422, 'validation_error', /^role: is required/);
});

test('the only owner keeps all projects', async () => {
  const { member } = (await owner.get('/v1/session')).body;
  const limited = await setRights(member.id, { projects: [{ id: first, role: 'admin' }] });
  assertFailure(limited, 409, 'conflict', /only owner/);
});

test('the command line invites to projects and shows who has which role', async () => {
  const invited = await service.cliJson(
    'members',
    'invite',
    'cli@acme.test',
    '--project-role',
    'shop=admin',
    '--project-role',
    `${third}=viewer`,
  );
  assert.deepEqual(invited.projects, [
    { id: second, role: 'admin' },
    { id: third, role: 'viewer' },
  ]);
  const { id } = await memberWith({ projects: [{ id: second, role: 'viewer' }] });
  const all = await service.cliJson('members', 'set-role', id, 'developer');
  assert.deepEqual([all.role, all.projects], ['developer', null]);
  const some = await service.cliJson('members', 'set-role', id, '--project-role', 'Blog=developer');
  assert.deepEqual(some.projects, [{ id: third, role: 'developer' }]);
});

test('the audit log has the change of the rights of a member', async () => {
  const { id } = await memberWith({ role: 'viewer' });
  await setRights(id, { projects: [{ id: second, role: 'admin' }] });
  const { body } = await owner.get('/v1/audit_log?limit=5');
  const entry = body.data.find((one: Body) => one.action === 'updateMember');
  assert.equal(entry.target_id, id);
});
