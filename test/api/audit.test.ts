/** The audit log: who changed what. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME, UUID_V7 } from '../support/api.ts';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const service = await startService({ env: { LETTERHAUS_LIMIT_AUTH: '1000/60' } });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

type Body = ApiResponse['body'];

const log = async (): Promise<Body[]> => (await owner.get('/v1/audit_log?limit=100')).body.data;
const actions = async () => (await log()).map(({ action }) => action);

test('a change by a member is in the log before its response', async () => {
  const response = await owner.post('/v1/domains', { name: 'audited.test' });
  const { id, created_at, ...entry } = (await log())[0];
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  const { member, projects } = (await owner.get('/v1/session')).body;
  assert.deepEqual(entry, {
    object: 'audit_event',
    action: 'createDomain',
    object_type: 'domain',
    actor: { type: 'member', id: member.id, name: OWNER.email, member_name: OWNER.name },
    project_id: projects[0].id,
    environment: 'test',
    target_id: response.body.id,
    target_name: 'audited.test',
    network: '127.0.0.0',
    request_id: response.headers.get('x-request-id'),
  });
});

test('members, projects, sign-ins and emails are in the log, with their targets', async () => {
  const admin = await memberOf(service, owner, 'admin');
  const { id } = (await admin.get('/v1/session')).body.member;
  await owner.request('PATCH', `/v1/members/${id}`, { body: { role: 'viewer' } });
  await owner.request('DELETE', `/v1/members/${id}`);
  const { body: project } = await owner.post('/v1/projects', { name: 'Shop' });
  const { body: email } = await owner.post('/v1/emails', EMAIL);
  await owner.signIn(OWNER);
  const entries = (await log()).slice(0, 7);
  assert.deepEqual(
    entries.map(({ action, actor }) => [action, actor.name]),
    [
      ['signIn', OWNER.email],
      ['sendEmail', OWNER.email],
      ['createProject', OWNER.email],
      ['removeMember', OWNER.email],
      ['updateMember', OWNER.email],
      ['acceptInvitation', 'admin1@acme.test'],
      ['createInvitation', OWNER.email],
    ],
  );
  const targets = entries.slice(1, 5).map(({ target_id }) => target_id);
  assert.deepEqual(targets, [email.id, project.id, id, id]);
  for (const entry of [entries[2], entries[3]]) assert.equal(entry.project_id, null);
});

test('reads, refused requests and dry runs are not in the log', async () => {
  const before = await actions();
  await owner.get('/v1/emails');
  assertFailure(await owner.post('/v1/domains', { name: 'no domain' }), 422, 'validation_error');
  assert.equal((await owner.post('/v1/emails?dry_run=true', EMAIL)).status, 200);
  const wrong = { email: OWNER.email, password: 'wrong password' };
  assertFailure(await owner.post('/v1/session', wrong), 401, 'authentication_error');
  await service.send();
  assert.deepEqual(await actions(), before);
});

test('an API key is in the log with its changes of access, domains, webhooks, suppressions', async () => {
  const before = (await log()).length;
  const ask = (method: string, path: string, body?: object) =>
    service.request(method, path, body === undefined ? {} : { body });
  const { body: key } = await ask('POST', '/v1/api-keys', { name: 'New one' });
  await ask('DELETE', `/v1/api-keys/${key.id}`);
  const { body: domain } = await ask('POST', '/domains', { name: 'root.test' });
  await ask('DELETE', `/v1/domains/${domain.id}`);
  await ask('POST', '/v1/suppressions', { address: 'jo@customers.test' });
  await ask('DELETE', '/v1/suppressions/jo@customers.test');
  const entries = (await log()).slice(0, -before);
  assert.deepEqual(
    entries.map(({ action, actor, target_id }) => [action, actor.type, actor.name, target_id]),
    [
      ['deleteSuppression', 'api_key', 'First test key', 'jo@customers.test'],
      ['deleteDomain', 'api_key', 'First test key', domain.id],
      ['createDomain', 'api_key', 'First test key', domain.id],
      ['revokeApiKey', 'api_key', 'First test key', key.id],
      ['createApiKey', 'api_key', 'First test key', key.id],
    ],
  );
});

test('an entry has the name of its object, also after the object was deleted', async () => {
  const { body: domain } = await owner.post('/v1/domains', { name: 'gone.test' });
  const { body: template } = await owner.post('/v1/templates', {
    name: 'Receipt',
    subject: 'Receipt',
    text: 'Paid.',
  });
  await owner.request('DELETE', `/v1/domains/${domain.id}`);
  await service.request('POST', '/v1/webhooks', {
    body: { url: 'https://hooks.acme.test/in', events: ['email.delivered'] },
  });
  const entries = (await log()).slice(0, 4);
  assert.deepEqual(
    entries.map(({ action, object_type, target_name }) => [action, object_type, target_name]),
    [
      ['createWebhook', 'webhook', 'https://hooks.acme.test/in'],
      ['deleteDomain', 'domain', 'gone.test'],
      ['createTemplate', 'template', 'Receipt'],
      ['createDomain', 'domain', 'gone.test'],
    ],
  );
  assert.equal(entries[2].target_id, template.id);
});

test('the log is filtered by action, object, person, target and time', async () => {
  const { body: domain } = await owner.post('/v1/domains', { name: 'filtered.test' });
  await owner.post(`/v1/domains/${domain.id}/verify`, {});
  const read = async (query: string): Promise<Body[]> =>
    (await owner.get(`/v1/audit_log?limit=100&${query}`)).body.data;
  const ofTarget = await read(`target_id=${domain.id}`);
  assert.deepEqual(
    ofTarget.map(({ action }) => action),
    ['verifyDomain', 'createDomain'],
  );
  const all = await log();
  const same = async (query: string, keeps: (entry: Body) => boolean) => {
    const [found, expected] = [await read(query), all.filter(keeps)];
    assert.ok(expected.length > 0 && expected.length < all.length, query);
    assert.deepEqual(found, expected, query);
  };
  await same('action=createDomain', ({ action }) => action === 'createDomain');
  await same('object=account', ({ object_type: type }) => type === 'account');
  const { member } = (await owner.get('/v1/session')).body;
  await same(`actor_id=${member.id}`, ({ actor }) => actor.id === member.id);
  const { created_at: at } = ofTarget[1]!;
  await same(`from=${at}`, ({ created_at: time }) => time >= at);
  await same(`to=${at}`, ({ created_at: time }) => time < at);
  assertFailure(await owner.get('/v1/audit_log?object=cat'), 422, 'validation_error');
});

test('a target without an id is named: the host for bounces, and the day of an acknowledgement', async () => {
  const host = { name: 'Bounces.acme.test' };
  await owner.request('PUT', '/v1/operator/return-path-host', { body: host });
  const { id } = (await owner.get('/v1/session')).body.projects[0];
  await service.sql(
    `insert into reconciled_days (project_id, day, differences)
     select id, '2020-02-01', '[{"kind": "not_queued", "count": 1}]' from projects where id = '${id}'`,
  );
  const acknowledge = '/v1/operator/reconciliation/acknowledge';
  const one = await owner.post(acknowledge, { day: '2020-02-01', project_id: id });
  assert.equal(one.status, 200);
  await service.sql('update reconciled_days set acknowledged_at = null');
  assert.equal((await owner.post(acknowledge, { day: '2020-02-01' })).status, 200);
  const targets = (await log()).slice(0, 3).map(({ action, target_id }) => [action, target_id]);
  assert.deepEqual(targets, [
    ['acknowledgeReconciliation', '2020-02-01'],
    ['acknowledgeReconciliation', `2020-02-01 ${id}`],
    ['setReturnPathHost', 'bounces.acme.test'],
  ]);
});

test('a link that a command makes is in the log', async () => {
  await service.cliJson('owner', 'reset', OWNER.email);
  const { action, actor, target_id, request_id } = (await log())[0];
  const { id } = (await owner.get('/v1/session')).body.member;
  assert.deepEqual(
    { action, actor, target_id, request_id },
    {
      action: 'makePasswordLink',
      actor: { type: 'command', id: null, name: null, member_name: null },
      target_id: id,
      request_id: null,
    },
  );
});

test('the log has pages, is for admins, and has no secret', async () => {
  const all = await log();
  const page = (await owner.get(`/v1/audit_log?limit=2&after=${all[0].id}`)).body;
  assert.deepEqual(page, { object: 'list', data: all.slice(1, 3), has_more: true });
  const back = (await owner.get(`/v1/audit_log?limit=1&before=${all[2].id}`)).body;
  assert.deepEqual(back.data, [all[1]]);
  const developer = await memberOf(service, owner, 'developer');
  assertFailure(await developer.get('/v1/audit_log'), 403, 'authorization_error');
  const rows = await service.sql('select audit_log::text as text from audit_log');
  const texts = rows.map(({ text }) => text).join('\n');
  for (const secret of [OWNER.password, owner.cookie!.split(/[=.]/)[1]!, EMAIL.html]) {
    assert.ok(!texts.includes(secret));
  }
});
