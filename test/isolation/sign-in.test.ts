/** Members sign in and work while others of their office, or strangers elsewhere, keep failing to. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const FAILURES_MAX = 5;
const env = {
  LETTERHAUS_LIMIT_AUTH: `${FAILURES_MAX}/60`,
  LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
};
const service = await startService({ env });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

/** Through the proxy of the service, from this address. */
function browserAt(address: string): Browser {
  return new Browser(service, { 'x-forwarded-for': address });
}

test('pages whose session has ended do not lock out the others of their office', async () => {
  const project = (await owner.get('/v1/session')).body.projects[0].id;
  const office = '192.0.2.7';
  const tab = browserAt(office);
  assert.equal((await tab.signIn(OWNER)).status, 200);
  const ended = tab.cookie!;
  assert.equal((await tab.request('DELETE', '/v1/session/all')).status, 200);
  const page = { 'letterhaus-project': project, 'letterhaus-session': '' };
  for (let ask = 0; ask < 4 * FAILURES_MAX; ask += 1) {
    // In a browser that still has the cookie, and in the one that signed out and has none.
    const cookie = ask % 2 === 0 ? ended : '';
    const answer = await browserAt(office).get('/v1/events', { ...page, cookie });
    assertFailure(
      answer,
      401,
      'authentication_error',
      /^You have been signed out. Sign in again.$/,
    );
  }
  const colleague = browserAt(office);
  assert.equal((await colleague.signIn(OWNER)).status, 200);
  assert.equal((await service.request('GET', '/v1/emails', { key: service.testKey })).status, 200);
});

test('a session that was made up counts as a failed authentication', async () => {
  const guesser = '192.0.2.8';
  const madeUp = () => `letterhaus_session=${'x'.repeat(43)}.${'y'.repeat(43)}`;
  for (let ask = 0; ask < FAILURES_MAX; ask += 1) {
    const answer = await browserAt(guesser).get('/v1/emails', { cookie: madeUp() });
    assertFailure(answer, 401, 'authentication_error', /not signed in/);
  }
  const further = await browserAt(guesser).get('/v1/emails', { cookie: madeUp() });
  assertFailure(further, 429, 'rate_limit_error');
});
