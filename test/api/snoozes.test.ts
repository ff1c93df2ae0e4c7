/** Snoozes of findings: who snoozed them, until when, and who sees that. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure } from '../support/api.ts';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
const developer = await memberOf(service, owner, 'developer');
const viewer = await memberOf(service, owner, 'viewer');

const FINDING = '/v1/snoozes/webhook.failing%3Aabc';
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

test('a snooze of a finding holds for all members of the project, who see by whom and until when', async () => {
  const until = inDays(1);
  const snoozed = await developer.request('PUT', FINDING, { body: { until } });
  assert.equal(snoozed.status, 200, snoozed.text);
  const { id: memberId, email } = (await developer.get('/v1/session')).body.member;
  const expected = ['webhook.failing:abc', until, memberId, email];
  for (const who of [owner, viewer]) {
    const { data } = (await who.get('/v1/snoozes')).body;
    assert.equal(data.length, 1);
    const [{ id, until: ends, by }] = data;
    assert.deepEqual([id, ends, by.id, by.email], expected);
  }
  const longer = inDays(7);
  const again = await owner.request('PUT', FINDING, { body: { until: longer } });
  assert.equal(again.body.until, longer);
  assert.equal((await viewer.get('/v1/snoozes')).body.data.length, 1);
  const other = (await viewer.get('/v1/snoozes', { 'letterhaus-environment': 'live' })).body;
  assert.deepEqual(other.data, []);
  const ended = await developer.request('DELETE', FINDING);
  assert.deepEqual(ended.body, { object: 'snooze', id: 'webhook.failing:abc', deleted: true });
  assert.deepEqual((await owner.get('/v1/snoozes')).body.data, []);
  assertFailure(await developer.request('DELETE', FINDING), 404, 'not_found');
});

test('a snooze ends by itself, and is in the audit log', async () => {
  await developer.request('PUT', '/v1/snoozes/bounces', { body: { until: inDays(1) } });
  await service.sql(`update finding_snoozes set until = created_at`);
  assert.deepEqual((await owner.get('/v1/snoozes')).body.data, []);
  assertFailure(await developer.request('DELETE', '/v1/snoozes/bounces'), 404, 'not_found');
  const { data } = (await owner.get('/v1/audit_log')).body;
  const actions = data.map((event: { action: string; target_id: string }) => [
    event.action,
    event.target_id,
  ]);
  assert.deepEqual(actions[0], ['snoozeFinding', 'bounces']);
});

test('viewers and API keys snooze nothing, and a snooze lasts at most 30 days', async () => {
  const put = (who: typeof owner, until: string) =>
    who.request('PUT', FINDING, { body: { until } });
  assertFailure(await put(viewer, inDays(1)), 403, 'authorization_error');
  assertFailure(await service.request('GET', '/v1/snoozes'), 403, 'authorization_error');
  for (const until of [inDays(-1), inDays(31), 'tomorrow']) {
    assertFailure(await put(owner, until), 422, 'validation_error');
  }
});
