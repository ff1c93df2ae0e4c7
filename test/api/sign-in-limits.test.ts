/** Guesses of passwords are limited per address, and per account and network, even with the right password. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const env = { LETTERHAUS_LIMIT_AUTH: '5/60', LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1' };
const service = await startService({ env });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

/** Through the proxy of the service, from this address. */
function browserAt(address: string): Browser {
  return new Browser(service, { 'x-forwarded-for': address });
}

test('signing in is not limited while it succeeds', async () => {
  for (let n = 0; n < 7; n += 1) {
    const response = await browserAt('192.0.2.1').post('/v1/session', OWNER_LOGIN);
    assert.equal(response.status, 200, response.text);
  }
});

const OWNER_LOGIN = { email: OWNER.email, password: OWNER.password };

test('an account is blocked for a network after a few wrong passwords, right password included', async () => {
  for (let n = 0; n < 5; n += 1) {
    const guess = { email: OWNER.email, password: `wrong ${n}` };
    const response = await browserAt(`203.0.113.${n}`).post('/v1/session', guess);
    assertFailure(response, 401, 'authentication_error');
  }
  const right = await browserAt('203.0.113.9').post('/v1/session', OWNER_LOGIN);
  assertFailure(right, 429, 'rate_limit_error', /Too many sign-ins have failed; try again in/);
  assert.ok(Number(right.headers.get('retry-after')) > 0);
  assert.equal((await owner.get('/v1/session')).status, 200);
  await service.clock.advance({ seconds: 61 });
  await signsInAgain();
});

/** A worker that has just refused an account does not ask the database about it again for a second. */
async function signsInAgain(): Promise<void> {
  let host = 0;
  const attempt = () => browserAt(`203.0.113.${(host += 1)}`).post('/v1/session', OWNER_LOGIN);
  const isIn = async () => (await attempt()).status === 200;
  await waitFor(isIn, { what: 'the account to be open again' });
}

test('an address is blocked after a few wrong accounts or links, right password included', async () => {
  const browser = browserAt('192.0.2.77');
  for (let n = 0; n < 3; n += 1) {
    const guess = { email: `jo${n}@acme.test`, password: 'wrong password' };
    assertFailure(await browser.post('/v1/session', guess), 401, 'authentication_error');
  }
  for (let n = 0; n < 2; n += 1) {
    const link = { token: `${n}`.repeat(43), password: 'some new password' };
    assertFailure(await browser.post('/v1/session/reset', link), 401, 'authentication_error');
  }
  assertFailure(await browser.post('/v1/session', OWNER_LOGIN), 429, 'rate_limit_error');
  const other = await browserAt('192.0.2.78').post('/v1/session', OWNER_LOGIN);
  assert.equal(other.status, 200, other.text);
});

test('concurrent guesses are counted exactly', async () => {
  const responses = await Promise.all(
    Array.from({ length: 12 }, () =>
      browserAt('192.0.2.200').post('/v1/session', { email: 'many@acme.test', password: 'wrong' }),
    ),
  );
  assert.equal(responses.filter(({ status }) => status === 401).length, 5);
  assert.equal(responses.filter(({ status }) => status === 429).length, 7);
});
