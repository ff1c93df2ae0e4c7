/** `unsubscribe: true`: where the pages of this service are, and when an email can name them. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const linkIn = (message: string) => /^List-Unsubscribe: <(.*)>\r$/m.exec(message)?.[1] ?? '';

test('a test key gets links to localhost while no public URL is set', async () => {
  const to = 'delivered+leaving@simulator.test';
  const id = await service.send({ to, unsubscribe: true });
  await service.waitForStatus(id, 'delivered');
  const { text } = await service.request('GET', `/v1/emails/${id}/content`);
  const link = linkIn(text);
  assert.ok(link.startsWith(`${service.url}/u/`), link);
  const clicked = await fetch(link, { method: 'POST', body: 'List-Unsubscribe=One-Click' });
  assert.equal(clicked.status, 200);
  const body = { ...EMAIL, to };
  assertFailure(await service.request('POST', '/v1/emails', { body }), 422, 'suppressed');
});

test('a live key without a public URL gets an error that names the setting, and can use its own link', async () => {
  const key = await service.liveKey();
  await service.addLiveDomain('acme.org');
  const body = { ...EMAIL, from: 'a@acme.org', to: 'jo@acme.org' };
  const hosted = { key, body: { ...body, unsubscribe: true } };
  const refused = await service.request('POST', '/v1/emails', hosted);
  assertFailure(
    refused,
    422,
    'validation_error',
    /^unsubscribe: needs POSTHORN_PUBLIC_URL, the https/,
  );
  const own = { key, body: { ...body, unsubscribe: 'https://acme.org/leave' } };
  assert.equal((await service.request('POST', '/v1/emails', own)).status, 202);
});

test('headers that unsubscribe writes cannot be given beside it', async () => {
  const body = { ...EMAIL, unsubscribe: true, headers: { 'List-Unsubscribe-Post': 'x' } };
  const answer = await service.request('POST', '/v1/emails', { body });
  assertFailure(answer, 422, 'validation_error', /^headers\.List-Unsubscribe-Post: /);
});

test('a path without a link gets the usual 404', async () => {
  for (const path of ['/u', '/u/a/b']) {
    assertFailure(await service.request('GET', path, { key: null }), 404, 'not_found');
  }
});
