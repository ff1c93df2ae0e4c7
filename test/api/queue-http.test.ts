/**
 * The queue over HTTP: waiting mail with its reasons, hold, release, retry, and a drop that can be undone for a minute.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

// Delivers nothing: what is accepted waits in the table.
const service = await startService({ args: ['--only', 'api', '--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const get = (path = '', key?: string) =>
  service.request('GET', `/v1/queue${path}`, key === undefined ? {} : { key });
const post = (change: string, body: object, key?: string) =>
  service.request('POST', `/v1/queue/${change}`, { body, ...(key !== undefined && { key }) });

const recipient = async (id: string) => (await service.email(id)).recipients[0];
const isOnHold = async (id: string): Promise<boolean> =>
  (await recipient(id)).next_attempt_at === null;
/** As after an attempt at that provider. */
const movedTo = (provider: string, id: string) =>
  service.sql('update queue set provider = $1 where email_id = $2', [provider, id]);

const owner = await ownerOf(service);
const own = (await owner.get('/v1/session')).body.projects[0].id as string;
const inTest = { 'letterhaus-project': own, 'letterhaus-environment': 'test' };

test('an empty queue says so', async () => {
  const { status, body } = await get();
  assert.equal(status, 200);
  assert.deepEqual(
    [body.object, body.waiting, body.is_estimate, body.next_due_at, body.has_more],
    ['queue', 0, false, null, false],
  );
  assert.deepEqual([body.providers, body.projects, body.drops], [[], [], []]);
});

test('waiting mail is counted by provider and by project, with the limit that binds', async () => {
  const id = await service.send({ to: ['a@simulator.test', 'b@simulator.test'] });
  const { body } = await get();
  assert.deepEqual([body.waiting, body.due, body.held], [2, 2, 0]);
  const [simulator] = body.providers;
  assert.deepEqual(
    [simulator.provider, simulator.waiting, simulator.state],
    ['simulator', 2, null],
  );
  assert.equal(simulator.limit.name, 'turn');
  assert.ok(Date.parse(simulator.oldest_due_at) <= Date.parse(body.measured_at));
  const [project] = body.projects;
  assert.deepEqual([project.project_id, project.environment, project.waiting], [own, 'test', 2]);

  await service.sql(`update queue set due_at = app_now() + interval '1 hour' where email_id = $1`, [
    id,
  ]);
  const later = (await get()).body.providers[0];
  assert.deepEqual([later.due, later.oldest_due_at, later.limit.name], [0, null, 'retry']);
  await post('retry', { email_id: id });
});

test('a provider that is suspended is named as the limit, with the setting that says for how long', async () => {
  await movedTo('slow.example', await service.send({ to: 'kim@slow.test' }));
  await service.sql(
    `insert into providers (node, provider, state, until, connections_max, connections_open, updated_at)
     select id, 'slow.example', 'suspended', app_now() + interval '1 minute', 1, 0, app_now() from nodes`,
  );
  const { body } = await get('/providers/slow.example');
  assert.deepEqual([body.provider, body.waiting, body.state], ['slow.example', 1, 'suspended']);
  assert.equal(body.limit.name, 'suspension');
  assert.deepEqual(body.limit.setting, {
    name: 'suspension.first_s',
    value: 60,
    source: 'built_in',
    path: 'suspension.first_s',
  });
  const of = (name: string) => body.settings.find((one: { name: string }) => one.name === name);
  assert.deepEqual(of('connections'), {
    name: 'connections',
    value: 20,
    source: 'built_in',
    path: 'default.connections',
  });
  await service.sql('delete from providers');
});

test('settings of a listed provider come from the table, and the simulator has none', async () => {
  const google = (await get('/providers/google')).body;
  assert.deepEqual([google.waiting, google.limit], [0, null]);
  assert.deepEqual(google.settings[0], {
    name: 'connections',
    value: 5,
    source: 'built_in_provider',
    path: 'providers.google.connections',
  });
  assert.deepEqual((await get('/providers/simulator')).body.settings, []);
});

test('mail on hold waits until it is released', async () => {
  const id = await service.send({ to: 'kim@held.test' });
  const response = await post('hold', { domain: 'HELD.test' });
  assert.equal(response.status, 200, response.text);
  const { object, change, selection, found, changed, next } = response.body;
  assert.deepEqual(
    [object, change, selection, found, changed, next],
    ['queue_change', 'hold', 'domain:held.test', 1, 1, null],
  );
  assert.ok(await isOnHold(id));
  assert.equal((await post('retry', { email_id: id })).body.changed, 0);
  assert.equal((await post('release', { email_id: id })).body.changed, 1);
  assert.equal(await isOnHold(id), false);
});

test('mail is selected by provider, and a provider with all of its mail on hold says so', async () => {
  const [id, other] = [await service.send(), await service.send()];
  await movedTo('hoster.example', id);
  assert.equal((await post('hold', { provider: 'hoster.example' })).body.changed, 1);
  assert.equal(await isOnHold(other), false);
  const { body } = await get('/providers/hoster.example');
  assert.deepEqual([body.waiting, body.held, body.limit.name], [1, 1, 'hold']);
  assert.equal(body.limit.setting, null);
  await post('release', { provider: 'hoster.example' });
});

test('mail on hold says whether an operator or the pause of its domain holds it', async () => {
  const send = async (): Promise<string> => {
    const id = await service.send({ to: 'kim@paused.test' });
    await movedTo('paused.example', id);
    return id;
  };
  const shown = async () => {
    const {
      held_by: by,
      paused_domains: domains,
      limit,
    } = (await get('/providers/paused.example')).body;
    return { by, domains, message: limit?.message };
  };
  const pause = (at: string) =>
    service.sql(`update domains set paused_at = ${at} where name = 'acme.test'`);
  await send();
  assert.deepEqual((await shown()).by, []);
  await post('hold', { provider: 'paused.example' });
  assert.deepEqual(await shown(), {
    by: ['operator'],
    domains: [],
    message: 'All recipients are on hold: an operator put them on hold.',
  });
  await pause('app_now()');
  const byPause = {
    by: ['pause'],
    domains: ['acme.test'],
    message: 'All recipients are on hold: the sending domain acme.test is paused.',
  };
  assert.deepEqual(await shown(), byPause);
  const listed = (await owner.get('/v1/queue?scope=organization')).body.providers.find(
    ({ provider }: { provider: string }) => provider === 'paused.example',
  );
  assert.deepEqual([listed.held_by, listed.paused_domains], [['pause'], ['acme.test']]);

  await service.request('POST', '/v1/domains', { body: { name: 'other.test' } });
  await service.sql(
    `update emails set domain_id = (select id from domains where name = 'other.test') where id = $1`,
    [await send()],
  );
  await post('hold', { provider: 'paused.example' });
  const both = await shown();
  assert.deepEqual([both.by, both.domains], [['operator', 'pause'], ['acme.test']]);
  await pause('null');
  await post('release', { provider: 'paused.example' });
});

test('dropped mail is put on hold at once and canceled when the minute is over', async () => {
  const id = await service.send({ to: 'kim@drop.test' });
  const dropped = await post('drop', { domain: 'drop.test' });
  assert.equal(dropped.status, 202, dropped.text);
  const { id: dropId, changed, is_complete, created_at, drops_at } = dropped.body;
  assert.deepEqual([changed, is_complete], [1, true]);
  assert.equal(Date.parse(drops_at) - Date.parse(created_at), 60_000);
  assert.ok(await isOnHold(id));
  assert.deepEqual((await get()).body.drops[0], dropped.body);
  const diagnosis = (await service.request('GET', `/v1/emails/${id}/diagnosis`)).body;
  assert.ok(diagnosis.recipients[0].held_by.message.includes(drops_at));
  const later = await service.send({ to: 'later@drop.test' });

  await service.sql('update queue_drops set drops_at = app_now() where id = $1', [dropId]);
  await service.waitForStatus(id, 'canceled');
  const { body } = await service.request('GET', `/v1/emails/${id}/events`);
  assert.equal(body.data.at(-1).type, 'email.canceled');
  await waitFor(async () => (await get()).body.drops.length === 0, { what: 'the end of the drop' });
  assertFailure(await service.request('DELETE', `/v1/queue/drops/${dropId}`), 404, 'not_found');
  assert.equal((await service.email(later)).status, 'queued');
});

test('an undone drop leaves everything as it was', async () => {
  const [waiting, scheduled, onHold] = [
    await service.send({ to: 'waiting@undo.test' }),
    await service.send({
      to: 'scheduled@undo.test',
      scheduled_at: new Date(Date.now() + 3_600_000).toISOString(),
    }),
    await service.send({ to: 'held@undo.test' }),
  ];
  await post('hold', { email_id: onHold });
  const rows = () =>
    service.sql(
      `select email_id, held, case when email_id = $1 then null else due_at end as due, drop_id
         from queue where destination = 'undo.test' order by email_id`,
      [waiting],
    );
  const before = await rows();
  const { id, changed } = (await post('drop', { domain: 'undo.test' })).body;
  assert.equal(changed, 3);
  const undone = await service.request('DELETE', `/v1/queue/drops/${id}`);
  assert.equal(undone.status, 200, undone.text);
  assert.notEqual(undone.body.undone_at, null);
  assert.deepEqual(await rows(), before);
  assert.equal(await isOnHold(waiting), false);
  assert.equal((await service.email(scheduled)).status, 'scheduled');
  assert.ok(await isOnHold(onHold));
  assert.deepEqual((await get()).body.drops, []);
});

test('a drop whose minute is over cannot be undone, and one survives a restart', async () => {
  const id = await service.send({ to: 'kim@restart.test' });
  const { id: dropId } = (await post('drop', { email_id: id })).body;
  await service.stop();
  await service.sql('update queue_drops set drops_at = app_now() where id = $1', [dropId]);
  await service.restart();
  const undo = await service.request('DELETE', `/v1/queue/drops/${dropId}`);
  assert.ok([409, 404].includes(undo.status), 'too late, or done already');
  await service.waitForStatus(id, 'canceled');
});

test('released mail is not dropped', async () => {
  const id = await service.send({ to: 'kim@kept.test' });
  const { id: dropId } = (await post('drop', { email_id: id })).body;
  assert.equal((await post('release', { email_id: id })).body.changed, 1);
  await service.sql('update queue_drops set drops_at = app_now() where id = $1', [dropId]);
  await waitFor(async () => (await get()).body.drops.length === 0, { what: 'the end of the drop' });
  assert.equal((await service.email(id)).status, 'queued');
});

const WRONG: Record<string, object> = {
  'nothing is selected': {},
  'everything and something is selected': { all: true, domain: 'a.test' },
  'the domain is none': { domain: 'not a domain' },
  'the provider has control characters': { provider: 'a\u0000b' },
  'a field is unknown': { all: true, projekt: 'x' },
};

for (const [what, body] of Object.entries(WRONG)) {
  test(`when ${what} the request is refused`, async () => {
    for (const change of ['hold', 'release', 'retry', 'drop']) {
      assertFailure(await post(change, body), 422, 'validation_error');
    }
  });
}

test('mail of another project or environment is neither shown, found nor changed', async () => {
  const id = await service.send({ to: 'kim@own.test' });
  const drop = (await post('drop', { email_id: id })).body;
  await service.cliJson('projects', 'create', 'Other');
  const { key: other } = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  for (const key of [other as string, await service.liveKey()]) {
    const { body } = await get('', key);
    assert.deepEqual([body.waiting, body.providers, body.projects, body.drops], [0, [], [], []]);
    for (const change of ['hold', 'release', 'retry', 'drop']) {
      assertFailure(await post(change, { email_id: id }, key), 404, 'not_found');
      assert.equal((await post(change, { all: true }, key)).body.found, 0);
    }
    const undo = await service.request('DELETE', `/v1/queue/drops/${drop.id}`, { key });
    assertFailure(undo, 404, 'not_found');
  }
  const undone = await service.request('DELETE', `/v1/queue/drops/${drop.id}`);
  assert.equal(undone.status, 200);
  assertFailure(await post('hold', { email_id: UNKNOWN_ID }), 404, 'not_found');
});

test('the organization as a whole is for members, and a key is refused', async () => {
  assertFailure(await get('?scope=organization'), 403, 'authorization_error');
  assertFailure(
    await post('hold', { all: true, scope: 'organization' }),
    403,
    'authorization_error',
  );
  const { body } = await owner.get('/v1/queue?scope=organization');
  const names = body.projects.map(({ name, environment }: Record<string, string>) => [
    name,
    environment,
  ]);
  assert.deepEqual(names, [['Acme', 'test']]);
  const response = await owner.post('/v1/queue/hold', {
    domain: 'own.test',
    scope: 'organization',
  });
  assert.deepEqual(
    [response.body.selection, response.body.changed],
    ['domain:own.test organization', 1],
  );
  await owner.post('/v1/queue/release', { domain: 'own.test', scope: 'organization' });
  const whole = await owner.post('/v1/queue/drop', { domain: 'own.test', scope: 'organization' });
  const dropsOf = (list: { body: { drops: { id: string }[] } }) =>
    list.body.drops.map(({ id }) => id);
  assert.deepEqual(dropsOf(await owner.get('/v1/queue', inTest)), [whole.body.id]);
  assert.deepEqual(dropsOf(await get()), []);
  assertFailure(
    await service.request('DELETE', `/v1/queue/drops/${whole.body.id}`),
    404,
    'not_found',
  );
  const undone = await owner.request('DELETE', `/v1/queue/drops/${whole.body.id}`);
  assert.equal(undone.status, 200, undone.text);
});

test('a viewer sees the queue and changes nothing, and changes by an admin are in the audit log', async () => {
  const viewer = await memberOf(service, owner, 'viewer');
  assert.equal((await viewer.get('/v1/queue', inTest)).status, 200);
  for (const change of ['hold', 'release', 'retry', 'drop']) {
    const refused = await viewer.post(`/v1/queue/${change}`, { all: true }, inTest);
    assertFailure(refused, 403, 'authorization_error', /admin/);
  }
  const admin = await memberOf(service, owner, 'admin');
  const response = await admin.post('/v1/queue/hold', { provider: 'nobody.example' }, inTest);
  assert.equal(response.status, 200, response.text);
  const { body } = await owner.get('/v1/audit_log');
  const [entry] = body.data;
  assert.deepEqual([entry.action, entry.target_id], ['holdQueue', 'provider:nobody.example']);
});

test('a large queue is estimated, and small senders are counted by the index', async () => {
  const big = await service.send({ to: 'kim@big.test' });
  await service.cliJson('projects', 'create', 'Huge');
  // More pages than are read of the queue.
  await service.sql(
    `insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
     select (select id from projects where name = 'Huge'), gen_random_uuid(), 0, 'test', 'd.test',
            'simulator', app_now()
       from generate_series(1, 200000)`,
  );
  // As autovacuum does.
  await service.sql('analyze queue');
  await movedTo('tiny.example', big);
  const { body } = await get();
  assert.equal(body.is_estimate, true);
  const tiny = body.providers.find((one: { provider: string }) => one.provider === 'tiny.example');
  assert.deepEqual([tiny?.waiting, tiny?.due], [1, 1]);
  assert.equal((await get('/providers/tiny.example')).body.waiting, 1);
  const all = (await owner.get('/v1/queue?scope=organization')).body;
  assert.ok(all.waiting > 150_000 && all.waiting < 250_000, `${all.waiting}`);
  await service.sql(
    `delete from queue where project_id = (select id from projects where name = 'Huge')`,
  );
  // The table keeps its pages.
  await service.sql('analyze queue');
  const counted = (await owner.get('/v1/queue?scope=organization')).body;
  const [{ count }] = await service.sql('select count(*)::int from queue');
  assert.deepEqual([counted.is_estimate, counted.waiting], [false, count]);
});

test('the last reply of a mail server to waiting mail is shown', async () => {
  await using delivering = await startService();
  const id = await delivering.send({ to: 'full@simulator.test' });
  const ask = () => delivering.request('GET', '/v1/queue/providers/simulator');
  const reply = await waitFor(async () => (await ask()).body.answers[0], { what: 'a reply' });
  assert.deepEqual([reply.email_id, reply.recipient, reply.code], [id, 'full@simulator.test', 452]);
});
