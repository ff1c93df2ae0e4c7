/** The API log: which requests it contains, which of their parts, and who may read it. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME, UNKNOWN_ID } from '../support/api.ts';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { type ApiResponse, type RequestOptions, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

const ask = (method: string, path: string, options: RequestOptions = {}) =>
  service.request(method, path, options);
const idOf = ({ headers }: ApiResponse): string => headers.get('x-request-id')!;
const read = (id: string) => ask('GET', `/v1/requests/${id}`);
const listed = async (query = ''): Promise<ApiResponse['body'][]> =>
  (await ask('GET', `/v1/requests?limit=100${query}`)).body.data;

/** Waits by reading the list: a read of an entry that is not there yet would be an entry itself. */
const logged = async (response: ApiResponse): Promise<ApiResponse['body']> => {
  const isThere = async () => (await listed()).some(({ id }) => id === idOf(response));
  await waitFor(isThere, { what: 'the request to be in the log', everyMs: 100 });
  return (await read(idOf(response))).body;
};

test('a failure is found by the request id of its error, without content and secrets', async () => {
  const html = '<a href="https://acme.test/reset?t=x">Reset</a>';
  const body = { ...EMAIL, to: 'bob@', html, htlm: 'odd' };
  const response = await ask('POST', '/v1/emails?x=secret', { body });
  assertFailure(response, 422, 'validation_error');
  const { id, created_at, duration_ms, actor, user_agent, ...entry } = await logged(response);
  assert.equal(id, response.body.error.request_id);
  assert.match(created_at, TIME);
  assert.ok(duration_ms >= 0);
  const keys = (await ask('GET', '/v1/api-keys')).body.data;
  const key = keys.find((one: ApiResponse['body']) => one.id === actor.id);
  assert.deepEqual(actor, { type: 'api_key', id: key.id, name: key.name, hint: key.hint });
  assert.equal(typeof user_agent, 'string');
  const { code, message } = response.body.error;
  assert.deepEqual(entry, {
    object: 'request',
    method: 'POST',
    path: '/v1/emails',
    status: 422,
    network: '127.0.0.0',
    error: { code, message },
    body: {
      from: EMAIL.from,
      to: 'bob@',
      subject: `(text, ${EMAIL.subject.length} characters)`,
      html: `(text, ${html.length} characters)`,
      htlm: '(text, 3 characters)',
    },
  });
});

test('changes are in the log; sending and reading are not, nor requests without a key', async () => {
  const unknown = await ask('GET', '/v1/emails', { key: null });
  const sent = await ask('POST', '/v1/emails', { body: EMAIL });
  const atRoot = await ask('POST', '/emails', { body: EMAIL });
  const got = await ask('GET', '/v1/domains');
  const gotEmail = await ask('GET', `/v1/emails/${sent.body.id}`);
  const failedAtRoot = await ask('GET', `/emails/${UNKNOWN_ID}`);
  const made = await ask('POST', '/v1/domains', { body: { name: 'logged.test' } });
  const ofMembers = await owner.post('/v1/session/password', { password: 'x' });
  const byMember = await owner.post('/v1/domains', { name: 'of-member.test' });
  assert.deepEqual([sent.status, atRoot.status, made.status], [202, 200, 201]);
  const { actor } = await logged(byMember);
  const { member } = (await owner.get('/v1/session')).body;
  assert.deepEqual(actor, { type: 'member', id: member.id, name: OWNER.name, hint: null });
  const { path, status, error, body } = await logged(made);
  assert.deepEqual(
    { path, status, error, body },
    { path: '/v1/domains', status: 201, error: null, body: null },
  );
  assert.equal((await logged(failedAtRoot)).error.code, 'not_found');
  for (const one of [unknown, sent, atRoot, got, gotEmail, ofMembers])
    assertFailure(await read(idOf(one)), 404, 'not_found');
});

test('the log is filtered, page by page, and belongs to its project and environment', async () => {
  const failure = await ask('DELETE', `/v1/domains/${UNKNOWN_ID}`);
  const { actor } = await logged(failure);
  const ids = async (query: string) => (await listed(query)).map(({ id }) => id);
  const one = idOf(failure);
  for (const query of [
    '&status=404',
    '&status=4xx',
    '&status=failed',
    '&method=DELETE',
    `&key_id=${actor.id}`,
  ]) {
    assert.ok((await ids(query)).includes(one), query);
  }
  for (const query of ['&status=422', '&status=2xx', '&method=POST', `&key_id=${UNKNOWN_ID}`]) {
    assert.ok(!(await ids(query)).includes(one), query);
  }
  const all = await ids('');
  assert.deepEqual(await ids(`&after=${all[0]}`), all.slice(1));
  assert.deepEqual(await ids(`&before=${all[1]}`), [all[0]]);
  for (const query of ['status=6xx', 'status=x', 'method=TRACE', 'key_id=x', 'after=x']) {
    assertFailure(await ask('GET', `/v1/requests?${query}`), 422, 'validation_error');
  }
  const key = await service.liveKey();
  assertFailure(await ask('GET', `/v1/requests/${one}`, { key }), 404, 'not_found');
  assertFailure(await read('nonsense'), 404, 'not_found');
  const viewer = await memberOf(service, owner, 'viewer');
  assertFailure(await viewer.get('/v1/requests'), 403, 'authorization_error');
  const developer = await memberOf(service, owner, 'developer');
  assert.equal((await developer.get('/v1/requests')).status, 200);
});

test('the log is filtered by person, by key and by time', async () => {
  const before = new Date().toISOString();
  const byMember = await logged(await owner.post('/v1/domains', { name: 'filtered.test' }));
  const byKey = await logged(await ask('POST', '/v1/domains', { body: { name: 'other.test' } }));
  const idsOf = async (query: string) => (await listed(query)).map(({ id }) => id);
  const [member, key] = [byMember.actor.id, byKey.actor.id];
  const ofMember = await listed(`&member_id=${member}`);
  assert.ok(ofMember.some(({ id }) => id === byMember.id));
  assert.ok(ofMember.every(({ actor }) => actor.id === member));
  assert.ok(!(await idsOf(`&key_id=${key}`)).includes(byMember.id));
  assert.deepEqual(await idsOf(`&member_id=${member}&key_id=${key}`), []);
  const since = await listed(`&from=${before}`);
  assert.ok(since.some(({ id }) => id === byKey.id));
  assert.ok(since.every(({ created_at: at }) => at >= before));
  assert.ok((await listed(`&to=${before}`)).every(({ created_at: at }) => at < before));
  assert.equal((await ask('GET', '/v1/requests?from=yesterday')).status, 422);
});
