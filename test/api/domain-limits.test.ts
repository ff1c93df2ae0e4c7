/** Limits on the number of domains of a project and on the rate of adding them: each domain costs keys and checks. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService({
  env: { LETTERHAUS_DOMAINS_MAX: '4', LETTERHAUS_LIMIT_DOMAINS: '20/60' },
});
after(() => service[Symbol.asyncDispose]());
const key = await service.liveKey();

/** Every test begins with a window that is over, and without domains. */
async function begin(): Promise<void> {
  await service.clock.advance({ seconds: 61 });
  await service.sql(`update domains set deleted_at = app_now() where environment = 'live'`);
}

const add = (name: string, who = key) =>
  service.request('POST', '/v1/domains', { key: who, body: { name } });

const addAll = (names: string[]) => Promise.all(names.map((name) => add(name)));

test('the maximum of domains holds for concurrent additions, and a removal makes room', async () => {
  await begin();
  const responses = await addAll(Array.from({ length: 9 }, (_, n) => `many${n}.example`));
  const added = responses.filter(({ status }) => status === 201);
  assert.equal(added.length, 4);
  for (const response of responses.filter(({ status }) => status !== 201)) {
    assertFailure(response, 409, 'conflict', /4 domains.*remove one.*set-domains-max/);
  }
  assert.equal((await add('acme2.test', service.testKey)).status, 201, 'environments are apart');
  await service.request('DELETE', `/v1/domains/${added[0]?.body.id}`, { key });
  assert.equal((await add('again.example')).status, 201);
  assert.equal((await add('more.example')).status, 409);
});

test('the operator can raise the maximum of domains of a project', async () => {
  await begin();
  await addAll(Array.from({ length: 4 }, (_, n) => `few${n}.example`));
  assert.equal((await add('fifth.example')).status, 409);
  const raised = await service.cli('projects', 'set-domains-max', '5');
  assert.match(raised.stdout, /5 domains/, raised.stderr);
  assert.equal((await add('fifth.example')).status, 201);
  assert.equal((await add('sixth.example')).status, 409);
  assert.equal((await service.cli('projects', 'set-domains-max', 'default')).code, 0);
  assert.equal((await service.cli('projects', 'set-domains-max', '0')).code, 2);
});

test('domains are added up to the rate limit, and no key is generated beyond it', async () => {
  await begin();
  const again = Array.from({ length: 25 }, () => 'same.example');
  const responses = await addAll(again);
  const count = (status: number) =>
    responses.filter((response) => response.status === status).length;
  assert.deepEqual([count(201), count(409), count(429)], [1, 19, 5]);
  const late = responses.find(({ status }) => status === 429);
  assertFailure(late!, 429, 'rate_limit_error', /20 domains per 60 s/);
  assert.equal(late?.headers.get('ratelimit-limit'), '20');
  assert.ok(Number(late?.headers.get('retry-after')) > 0);
  const set = await service.cli('projects', 'set-limit', '100/60', '--category', 'domains');
  assert.equal(set.code, 0, set.stderr);
  assert.equal((await add('same.example')).status, 409);
});
