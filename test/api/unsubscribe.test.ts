/** `unsubscribe: true`: where the pages of this service are, and which emails can name them. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const linkIn = (message: string) => /^List-Unsubscribe: <(.*)>\r$/m.exec(message)?.[1] ?? '';

test('a test key gets links to localhost while no public URL is set', async () => {
  const to = 'leaving@list.test';
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

test('headers that unsubscribe writes cannot be given beside it', async () => {
  const body = { ...EMAIL, unsubscribe: true, headers: { 'List-Unsubscribe-Post': 'x' } };
  const response = await service.request('POST', '/v1/emails', { body });
  assertFailure(response, 422, 'validation_error', /^headers\.List-Unsubscribe-Post: /);
});

test('a path without a link gets the usual 404', async () => {
  for (const path of ['/u', '/u/a/b']) {
    assertFailure(await service.request('GET', path, { key: null }), 404, 'not_found');
  }
});
