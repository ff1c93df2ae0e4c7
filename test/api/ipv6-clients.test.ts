/** Clients over IPv6: the API on [::1], and limits by /64 and /48, so that one network does not block others. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { Browser, OWNER, ownerOf } from '../support/browser.ts';
import { openEventStream } from '../support/event-stream.ts';
import { startService } from '../support/service.ts';

const FAILURES_MAX = 5;
const service = await startService({
  env: {
    HOST: '::1',
    LETTERHAUS_LIMIT_AUTH: `${FAILURES_MAX}/60`,
    LETTERHAUS_TRUSTED_PROXIES: '::1',
  },
});
after(() => service[Symbol.asyncDispose]());
await ownerOf(service);

const failAt = (address: string) =>
  service.request('GET', '/v1/emails', { key: null, headers: { 'x-forwarded-for': address } });
const signInAt = (address: string, password: string) =>
  new Browser(service, { 'x-forwarded-for': address }).signIn({ email: OWNER.email, password });

test('the API is served on an IPv6 address, with its streams and links', async () => {
  assert.match(service.url, /^http:\/\/\[::1\]:\d+$/);
  await using stream = await openEventStream(service.url, { key: service.testKey });
  const { status, body } = await service.request('POST', '/v1/emails', { body: EMAIL });
  assert.equal(status, 202);
  await service.waitForStatus(body.id, 'delivered');
  await stream.waitForCount(2);
  const shared = await service.request('POST', `/v1/emails/${body.id}/share`, { body: {} });
  assert.equal((await fetch(shared.body.url)).status, 200);
});

test('failures of one /64 do not count for another, however the address is written', async () => {
  for (const host of ['::1', '::2', ':0:0:0:3', ':ab:CD::', '::192.0.2.1']) {
    assertFailure(await failAt(`2001:db8:0:1${host}`), 401, 'authentication_error');
  }
  assertFailure(await failAt('2001:0db8:0000:0001::9'), 429, 'rate_limit_error');
  assertFailure(await failAt('2001:db8:0:2::1'), 401, 'authentication_error');
  assertFailure(await failAt('::ffff:192.0.2.1'), 401, 'authentication_error');
});

test('wrong passwords from one /48 do not block an account for another', async () => {
  for (let subnet = 0; subnet < FAILURES_MAX; subnet += 1) {
    const response = await signInAt(`2001:db8:1:${subnet}::1`, 'wrong password');
    assertFailure(response, 401, 'authentication_error');
  }
  assertFailure(await signInAt('2001:db8:1:99::1', OWNER.password), 429, 'rate_limit_error');
  assert.equal((await signInAt('2001:db8:2::1', OWNER.password)).status, 200);
});
