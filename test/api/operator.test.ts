/** Operators manage the installation by key and by command line, and nobody else can. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { NewCondition } from '../../src/core/operator-events.ts';
import { clearCondition, raiseCondition } from '../../src/operator/condition-store.ts';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, tokenOf } from '../support/browser.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

const DEGRADED: NewCondition = {
  type: 'domain.degraded',
  subject: 'acme.example',
  message: 'A record of acme.example is missing.',
  remedy: 'Publish it.',
  details: { domain: 'acme.example' },
};
const raise = () => asOwner(service.address(), (db) => raiseCondition(db, DEGRADED));
const clear = () => asOwner(service.address(), (db) => clearCondition(db, DEGRADED));

async function operatorKey(): Promise<string> {
  const made = await service.cliJson(
    'keys',
    'create',
    '--project',
    'operator',
    '--environment',
    'live',
  );
  return made.key;
}

test('an operator lists open conditions by command line and by key, with their start and remedy', async () => {
  const quiet = await service.cli('attention');
  assert.equal(quiet.code, 0, quiet.stderr);
  assert.match(quiet.stdout, /Nothing needs attention/);
  await raise();
  const shown = await service.cli('attention');
  assert.equal(shown.code, 1, 'there is something');
  assert.match(shown.stdout, /domain\.degraded +acme\.example +A record .* Publish it/);
  const json = await service.cli('attention', '--json');
  const [listed] = JSON.parse(json.stdout).data;
  const key = await operatorKey();
  const response = await service.request('GET', '/v1/operator/conditions', { key });
  assert.equal(response.status, 200, response.text);
  assert.equal(response.body.has_more, false);
  assert.deepEqual(response.body.data, [listed]);
  const { since, last_seen } = listed;
  assert.deepEqual({ object: 'condition', ...DEGRADED, since, last_seen }, listed);
  await clear();
  assert.equal((await service.cli('attention')).code, 0);
});

test('changes to operator events are in the audit log that the members read', async () => {
  const made = await service.cliJson(
    'keys',
    'create',
    '--project',
    'operator',
    '--environment',
    'live',
  );
  const url = 'https://alerts.example/hook';
  const hook = await service.request('POST', '/v1/webhooks', { key: made.key, body: { url } });
  assert.equal(hook.status, 201, hook.text);
  await service.cliJson('keys', 'revoke', made.id, '--project', 'operator');
  const { data } = await service.cliJson('audit', '--limit', '3');
  const entries = data.map(({ action, actor, project_id, target_id }: Record<string, unknown>) => {
    return [action, (actor as { type: string }).type, project_id, target_id];
  });
  assert.deepEqual(entries, [
    ['revokeApiKey', 'command', made.project_id, made.id],
    ['createWebhook', 'api_key', made.project_id, hook.body.id],
    ['createApiKey', 'command', made.project_id, made.id],
  ]);
});

test('the event stream of an operator key has the beginning and the end of a condition', async () => {
  const key = await operatorKey();
  const { cursor } = (await service.request('GET', '/v1/events?after=latest', { key })).body;
  await raise();
  await raise();
  await clear();
  const path = `/v1/events?after=${cursor}&types=domain.degraded,domain.recovered`;
  const events = await waitFor(
    async () => {
      const { data } = (await service.request('GET', path, { key })).body;
      return data.length === 2 ? (data as { type: string; data: Record<string, string> }[]) : null;
    },
    { what: 'two events' },
  );
  assert.deepEqual(
    events.map(({ type, data }) => [type, data['subject'], data['state'], data['message']]),
    [
      ['domain.degraded', 'acme.example', 'raised', DEGRADED.message],
      ['domain.recovered', 'acme.example', 'cleared', 'The records of the domain are back.'],
    ],
  );
});

test('keys of projects see nothing of the installation', async () => {
  await raise();
  for (const key of [service.testKey, await service.liveKey()]) {
    const refused = await service.request('GET', '/v1/operator/conditions', { key });
    assertFailure(refused, 403, 'authorization_error');
    const { data } = (await service.request('GET', '/v1/events', { key })).body;
    assert.deepEqual(
      data.filter(({ type }: { type: string }) => type.startsWith('provider.')),
      [],
    );
  }
  await clear();
});

test('a key of the operator cannot send, and has no project among the others', async () => {
  const key = await operatorKey();
  const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };
  for (const [method, path] of [
    ['POST', '/v1/emails'],
    ['POST', '/emails'],
    ['POST', '/v1/domains'],
    ['GET', '/v1/emails'],
    ['POST', '/v1/api-keys'],
  ] as const) {
    const refused = await service.request(method, path, {
      key,
      ...(method === 'POST' && { body }),
    });
    // The wire format of Resend has 401 for this refusal.
    assert.equal(refused.status, path === '/emails' ? 401 : 403, `${method} ${path}`);
    assert.match(refused.text, /This is a key of the operator/);
  }
  const current = await service.request('GET', '/v1/api-keys/current', { key });
  assert.equal(current.status, 200, current.text);
  const projects = await service.cliJson('projects', 'list');
  assert.equal(projects.data.length, 1);
  assert.equal((await service.cli('keys', 'list')).code, 0, 'there is still only one project');
  assert.equal((await service.cli('owner', 'link')).code, 0);
});

test('an operator on the machine manages members, and sees status, limits, requests and who changed what', async () => {
  const status = await service.cli('status');
  assert.equal(status.code, 0, status.stderr);
  assert.match(status.stdout, /^mail +is accepted and sent$/m);
  const jo = 'jo@acme.test';
  const invited = await service.cliJson('members', 'invite', jo, '--role', 'developer');
  const joining = { token: tokenOf(invited.url), name: 'Jo', password: OWNER.password };
  await new Browser(service).request('POST', '/v1/invitations/accept', { body: joining });
  assert.equal((await service.cliJson('members', 'set-role', jo, 'owner')).role, 'owner');
  const last = await service.cli('members', 'remove', jo, '--yes');
  assert.match(last.stderr, /This is the only owner/);
  const [entry] = (await service.cliJson('audit')).data;
  assert.deepEqual([entry.action, entry.actor.type], ['updateMember', 'command']);

  const [live] = (await service.cliJson('limits')).data;
  assert.deepEqual([live.environment, live.object], ['live', 'limits']);
  const id = await service.send({ subject: '=1, "2"' });
  const { stdout } = await service.cli('emails', 'export', '--since', '1h');
  assert.match(stdout, new RegExp(`^id,environment,.*\r\n${id},test,.*,"'=1, ""2""",`));
  await service.request('POST', '/v1/emails', { body: {} });
  const failed = await waitFor(
    async () => (await service.cliJson('requests', 'list', '--status', '422')).data[0],
    { what: 'the failure to be in the API log' },
  );
  assert.equal((await service.cliJson('requests', 'show', failed.id)).path, '/v1/emails');
});
