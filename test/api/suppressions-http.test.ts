/** The suppression list over HTTP, one address at a time. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const service = await startService({ env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' } });
after(() => service[Symbol.asyncDispose]());

type Body = ApiResponse['body'];

const PATH = '/v1/suppressions';
const one = (address: string) => `${PATH}/${encodeURIComponent(address)}`;

const add = (body: object, key = service.testKey) => service.request('POST', PATH, { key, body });

const list = async (query = ''): Promise<Body> => {
  const response = await service.request('GET', PATH + query);
  assert.equal(response.status, 200, response.text);
  return response.body;
};

const addressesOf = (body: Body) => body.data.map(({ address }: Body) => address);

test('an address is added, found and removed with webhooks, and its history remains', async () => {
  await using receiver = await startReceiver();
  const events = ['suppression.added', 'suppression.removed'];
  await service.request('POST', '/v1/webhooks', { body: { url: receiver.url, events } });
  const address = 'jo+tag@bücher.test';
  const written = 'jo+tag@xn--bcher-kva.test';
  const added = await add({ address, reason: 'complaint' });
  assert.equal(added.status, 201, added.text);
  const { created_at, etag, ...entry } = added.body;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.match(created_at, TIME);
  assert.deepEqual(entry, {
    object: 'suppression',
    address: written,
    reason: 'complaint',
    source_email_id: null,
    expires_at: null,
    simulated: false,
  });
  const again = await add({ address: 'JO+TAG@bücher.test' });
  assert.deepEqual([again.status, again.body], [200, added.body]);

  const found = await service.request('GET', one('Jo+Tag@BÜCHER.test'));
  const { history, ...shown } = found.body;
  assert.deepEqual(shown, added.body);
  assert.partialDeepStrictEqual(history, [
    { action: 'added', reason: 'complaint', source_email_id: null, by: 'api' },
  ]);
  const to = { ...EMAIL, to: address };
  assertFailure(await service.request('POST', '/v1/emails', { body: to }), 422, 'suppressed');

  const removed = await service.request('DELETE', one(address));
  assert.deepEqual(removed.body, { object: 'suppression', address: written, deleted: true });
  assert.equal((await service.request('POST', '/v1/emails', { body: to })).status, 202);
  for (const method of ['GET', 'DELETE']) {
    assertFailure(await service.request(method, one(address)), 404, 'not_found', /not suppressed/);
  }
  const past = await service.request('GET', `${one(address)}/history`);
  assert.deepEqual(
    past.body.data.map(({ action, by }: Body) => [action, by]),
    [
      ['removed', 'api'],
      ['added', 'api'],
    ],
  );
  const notified = await receiver.waitForCount(2);
  assert.deepEqual(notified.map(({ event }) => event.type).toSorted(), events);
});

test('an expired entry is not listed and does not stop mail', async () => {
  const address = 'ends@ends.test';
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const added = await add({ address, expires_at });
  assert.equal(added.body.expires_at, expires_at);
  const body = { ...EMAIL, to: address };
  assertFailure(await service.request('POST', '/v1/emails', { body }), 422, 'suppressed');
  await service.clock.advance({ hours: 2 });
  assert.equal((await service.request('POST', '/v1/emails', { body })).status, 202);
  assertFailure(await service.request('GET', one(address)), 404, 'not_found');
  assert.equal((await add({ address })).status, 201);
});

test('the list is ordered by address, pages in both directions and can be filtered', async () => {
  const names = ['c', 'a', 'e', 'b', 'd'].map((name) => `${name}@list.test`);
  for (const address of names) {
    await add({ address, reason: address < 'c' ? 'unsubscribe' : 'hard_bounce' });
  }
  const first = await list('?limit=2&address=');
  assert.deepEqual([addressesOf(first), first.has_more], [['a@list.test', 'b@list.test'], true]);
  const second = await list('?limit=2&after=b@list.test');
  assert.deepEqual(addressesOf(second), ['c@list.test', 'd@list.test']);
  const back = await list('?limit=2&before=c@list.test');
  assert.deepEqual([addressesOf(back), back.has_more], [addressesOf(first), false]);
  assert.deepEqual(addressesOf(await list('?reason=unsubscribe')), ['a@list.test', 'b@list.test']);
  assert.deepEqual(addressesOf(await list('?address=D@LIST')), ['d@list.test']);
  assert.deepEqual(addressesOf(await list('?address=ist.test')), []);
});

test('invalid parameters are reported by name', async () => {
  const wrong: [object, RegExp][] = [
    [{}, /^address: is required/],
    [{ address: 'bob@' }, /^address: "bob@" is not an email address/],
    [{ address: 'a@b.test', reason: 'dislike' }, /^reason: must be one of/],
    [{ address: 'a@b.test', expires_at: '2020-01-01T00:00:00Z' }, /^expires_at: is in the past/],
    [{ address: 'a@b.test', expires_at: 'tomorrow' }, /^expires_at: must be a time/],
    [{ address: 'a@b.test', note: '' }, /^note: is not a field/],
  ];
  for (const [body, message] of wrong) {
    assertFailure(await add(body), 422, 'validation_error', message);
  }
  const queries = [
    'limit=0',
    'limit=101',
    'after=x',
    'before=%00',
    'reason=x',
    'address=%00',
    'x=1',
  ];
  for (const query of [...queries, 'after=a@list.test&before=b@list.test']) {
    const response = await service.request('GET', `${PATH}?${query}`);
    assertFailure(response, 422, 'validation_error');
  }
});

test('an invalid address is not found', async () => {
  for (const name of ['x', '%00', 'a%40b', '..%2f', `${'ü'.repeat(120)}@x.test`]) {
    const path = `${PATH}/${encodeURI(name).replaceAll('%25', '%')}`;
    assertFailure(await service.request('GET', path), 404, 'not_found');
    assertFailure(await service.request('DELETE', path), 404, 'not_found');
  }
  const longest = `${'ü'.repeat(32)}@${`${'x'.repeat(60)}.`.repeat(3)}test`;
  assert.equal((await add({ address: longest })).status, 201);
  assert.equal((await service.request('GET', one(longest))).status, 200);
});

test('each project and environment has its own list', async () => {
  const address = 'mine@owned.test';
  await add({ address });
  const live = await service.liveKey();
  await service.cliJson('projects', 'create', 'Other');
  const stranger = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  for (const key of [live, stranger.key]) {
    for (const method of ['GET', 'DELETE']) {
      const foreign = await service.request(method, one(address), { key });
      const unknown = await service.request(method, one('nobody@owned.test'), { key });
      assertFailure(foreign, 404, 'not_found');
      assert.equal(foreign.body.error.message, unknown.body.error.message);
    }
    const past = await service.request('GET', `${one(address)}/history`, { key });
    assert.deepEqual(past.body.data, []);
    const all = await service.request('GET', PATH, { key });
    assert.deepEqual(all.body.data, []);
    const file = await service.request('GET', `${PATH}/export`, { key });
    assert.doesNotMatch(file.text, /@/);
  }
  assert.equal((await service.request('GET', one(address))).status, 200);
});

test('a sending key cannot read the list', async () => {
  const body = { name: 'sender', permission: 'sending_access' };
  const { body: made } = await service.request('POST', '/v1/api-keys', { body });
  const { key } = made;
  const requests: [string, string][] = [
    ['GET', PATH],
    ['POST', PATH],
    ['GET', one('a@b.test')],
    ['GET', `${one('a@b.test')}/history`],
    ['DELETE', one('a@b.test')],
    ['GET', `${PATH}/export`],
    ['POST', `${PATH}/import`],
  ];
  for (const [method, path] of requests) {
    assertFailure(await service.request(method, path, { key }), 403, 'authorization_error');
    assertFailure(await service.request(method, path, { key: null }), 401, 'authentication_error');
  }
});

test('the command line shows an address with its history', async () => {
  const address = 'shown@ends.test';
  const where = ['--environment', 'test', '--project', 'Acme'];
  await add({ address, reason: 'unsubscribe' });
  const shown = await service.cliJson('suppressions', 'show', address, ...where);
  assert.equal(shown.reason, 'unsubscribe');
  assert.equal(shown.history[0].by, 'api');
  await service.cliJson('suppressions', 'remove', address, ...where);
  const gone = await service.cli('suppressions', 'show', address, ...where);
  assert.equal(gone.code, 1);
  assert.match(gone.stdout, /is not suppressed[^]*removed +unsubscribe +command_line/);
});
