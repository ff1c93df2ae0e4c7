/** Views: searches that members save under a name. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import { type Browser, memberOf, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
const viewer = await memberOf(service, owner, 'viewer');

const save = (who: Browser, name: string, q: string) => who.post('/v1/views', { name, q });
const namesOf = async (who: Browser, headers: Record<string, string> = {}) =>
  (await who.get('/v1/views', headers)).body.data.map(({ name }: { name: string }) => name);

test('a view is saved, replaced by its name, and deleted; other members do not see it', async () => {
  const saved = await save(viewer, 'Bounced', 'status:bounced');
  assert.equal(saved.status, 200, saved.text);
  assert.deepEqual([saved.body.object, saved.body.q], ['view', 'status:bounced']);
  await save(viewer, 'all of Acme', 'domain:acme.test');
  const again = await save(viewer, 'Bounced', 'status:bounced domain:acme.test');
  assert.equal(again.body.id, saved.body.id);
  const { body } = await viewer.get('/v1/views');
  assert.equal(body.has_more, false);
  assert.deepEqual(
    body.data.map(({ name, q }: { name: string; q: string }) => [name, q]),
    [
      ['all of Acme', 'domain:acme.test'],
      ['Bounced', 'status:bounced domain:acme.test'],
    ],
  );
  assert.deepEqual(await namesOf(owner), []);
  assertFailure(await owner.request('DELETE', `/v1/views/${saved.body.id}`), 404, 'not_found');
  const gone = await viewer.request('DELETE', `/v1/views/${saved.body.id}`);
  assert.deepEqual(gone.body, { object: 'view', id: saved.body.id, deleted: true });
  assert.deepEqual(await namesOf(viewer), ['all of Acme']);
});

test('views belong to a project, and are not in the audit log', async () => {
  const { body: shop } = await owner.post('/v1/projects', { name: 'Shop' });
  await save(owner, 'Here', 'status:failed');
  assert.deepEqual(await namesOf(owner), ['Here']);
  assert.deepEqual(await namesOf(owner, { 'letterhaus-project': shop.id }), []);
  const { data } = (await owner.get('/v1/audit_log')).body;
  assert.ok(data.every(({ action }: { action: string }) => !/view$/i.test(action)));
});

test('an invalid view is refused, and so is the 51st', async () => {
  for (const wrong of [{}, { name: '', q: '' }, { name: 'a\n', q: '' }, { name: 'x' }]) {
    assertFailure(await owner.post('/v1/views', wrong), 422, 'validation_error');
  }
  for (const name of ['x'.repeat(81), 'x']) {
    const q = name === 'x' ? 'y'.repeat(1_001) : '';
    assertFailure(await save(owner, name, q), 422, 'validation_error');
  }
  for (const id of [UNKNOWN_ID, 'x']) {
    assertFailure(await owner.request('DELETE', `/v1/views/${id}`), 404, 'not_found');
  }
  const many = await memberOf(service, owner, 'viewer');
  for (let i = 0; i < 50; i += 1) await save(many, `View ${i}`, '');
  assertFailure(await save(many, 'One more', ''), 409, 'conflict');
  assert.equal((await save(many, 'View 7', 'status:failed')).status, 200);
  assert.equal((await namesOf(many)).length, 50);
});

test('views need a session, and go with their member', async () => {
  const byKey = await service.request('GET', '/v1/views');
  assertFailure(byKey, 403, 'authorization_error');
  const leaving = await memberOf(service, owner, 'viewer');
  await save(leaving, 'Mine', 'status:failed');
  const { id } = (await leaving.get('/v1/session')).body.member;
  assert.equal((await owner.request('DELETE', `/v1/members/${id}`)).status, 200);
  const left = await service.sql('select from member_views where member_id = $1', [id]);
  assert.equal(left.length, 0);
});
