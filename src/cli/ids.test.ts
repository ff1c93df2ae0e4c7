/** An id is enough: it has one project and environment. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startService } from '../../test/support/service.ts';
import { newId } from '../database/ids.ts';

const service = await startService();

after(() => service[Symbol.asyncDispose]());

const run = (...words: string[]) => service.cli(...words);
const json = (...words: string[]) => service.cliJson(...words);
for (const name of ['First', 'Second', 'Third']) await json('projects', 'create', name);

const IN_SECOND = ['--project', 'Second', '--environment', 'test'];

test('a key is revoked by its id alone, however many projects there are', async () => {
  const { id } = await json('keys', 'create', ...IN_SECOND);
  const revoked = { object: 'api_key', id, deleted: true, revoked: true };
  assert.deepEqual(await json('keys', 'revoke', id), revoked);
  const again = await run('keys', 'revoke', id);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /no key with the id/);
});

test('a key that leaked is revoked by its text', async () => {
  const { id, key } = await json('keys', 'create', ...IN_SECOND);
  assert.equal((await json('keys', 'revoke', key)).id, id);
  const again = await run('keys', 'revoke', key);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /The service does not know this key\./);
});

test('a key is rotated by its id or its text, and keeps its environment and its limits', async () => {
  const { id, key } = await json('keys', 'create', ...IN_SECOND, '--domain', 'shop.test');
  const next = await json('keys', 'rotate', id);
  assert.deepEqual([next.environment, next.replaces.id], ['test', id]);
  assert.match(next.key, /^lh_test_/);
  const again = await json('keys', 'rotate', key, '--overlap', '0');
  assert.ok(again.replaces.expires_at < next.replaces.expires_at);
  const ended = await run('keys', 'rotate', id);
  assert.equal(ended.code, 1);
  const { data } = await json('keys', 'list', ...IN_SECOND);
  const made = data.filter((one: { id: string }) => [next.id, again.id].includes(one.id));
  assert.deepEqual(
    made.map(({ domain }: { domain: string }) => domain),
    ['shop.test', 'shop.test'],
  );
  assert.equal((await run('keys', 'rotate', id, '--overlap', '31d')).code, 2);
});

test('a project that is given must be the one of the id', async () => {
  const { id } = await json('keys', 'create', ...IN_SECOND);
  assert.equal((await run('keys', 'revoke', id, '--project', 'First')).code, 1);
  assert.equal((await json('keys', 'revoke', id, '--project', 'Second')).revoked, true);
});

test('a domain is verified, changed and removed by its id alone', async () => {
  for (const mode of ['test', 'live']) {
    const { id } = await json(
      'domains',
      'add',
      'shop.test',
      '--project',
      'Second',
      '--environment',
      mode,
    );
    if (mode === 'test') assert.equal((await json('domains', 'verify', id)).status, 'verified');
    assert.equal((await json('domains', 'set-tls', id, 'enforced')).tls, 'enforced');
    const removed = { object: 'domain', id, deleted: true, waiting: 0 };
    assert.deepEqual(await json('domains', 'remove', id), removed);
    assert.equal((await run('domains', 'remove', id)).code, 1);
  }
  const byName = await run('domains', 'remove', 'shop.test');
  assert.match(byName.stderr, /several projects; say which with --project/);
});

test('a webhook is enabled and removed by its id alone', async () => {
  const { id } = await json('webhooks', 'add', 'https://shop.example/hook', ...IN_SECOND);
  assert.equal((await json('webhooks', 'enable', id)).id, id);
  assert.equal((await json('webhooks', 'remove', id)).deleted, true);
  for (const unknown of [id, newId(), 'nonsense']) {
    assert.match((await run('webhooks', 'enable', unknown)).stderr, /no webhook with this id/);
  }
});

test('an email is shown by its id alone', async () => {
  const id = await service.send({ to: 'delivered@simulator.test' });
  assert.equal((await json('emails', 'show', id)).id, id);
  assert.equal((await run('emails', 'show', newId())).code, 1);
});
