/** Tests that members can sign in and work while others in their office, or strangers elsewhere, keep failing to. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const FAILURES_MAX = 5;
const env = {
  LETTERHAUS_LIMIT_AUTH: `${FAILURES_MAX}/60`,
  LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
};
const service = await startService({ env });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

/** Returns a browser at this address, behind the proxy of the service. */
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
    // One browser still has the cookie; the other has signed out and has none.
    const cookie = ask % 2 === 0 ? ended : '';
    const response = await browserAt(office).get('/v1/events', { ...page, cookie });
    assertFailure(
      response,
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
    const response = await browserAt(guesser).get('/v1/emails', { cookie: madeUp() });
    assertFailure(response, 401, 'authentication_error', /not signed in/);
  }
  const further = await browserAt(guesser).get('/v1/emails', { cookie: madeUp() });
  assertFailure(further, 429, 'rate_limit_error');
});

const RIGHT = { email: OWNER.email, password: OWNER.password };
const guessAt = (address: string) =>
  browserAt(address).signIn({ email: OWNER.email, password: 'wrong password' });

test('wrong passwords from one network do not lock an account for its owner elsewhere', async () => {
  for (let host = 0; host < FAILURES_MAX; host += 1) {
    assertFailure(await guessAt(`198.51.100.${host}`), 401, 'authentication_error');
  }
  assertFailure(await guessAt('198.51.100.99'), 429, 'rate_limit_error');
  assert.equal((await browserAt('203.0.113.9').signIn(RIGHT)).status, 200);
});

test('guesses from many networks are slowed down, and the owner can sign in from a new place', async () => {
  await service.clock.advance({ minutes: 61 });
  const reducedAfter = 5 * FAILURES_MAX;
  for (let network = 0; network < reducedAfter; network += 1) {
    assertFailure(await guessAt(`10.0.${network}.1`), 401, 'authentication_error');
  }
  assertFailure(await guessAt('10.1.0.1'), 401, 'authentication_error');
  assertFailure(await guessAt('10.1.0.2'), 429, 'rate_limit_error');
  assert.equal((await browserAt('203.0.113.10').signIn(RIGHT)).status, 200);
});

test('a browser of an earlier sign-in can sign in from a network that is blocked, with the same password', async () => {
  const at = (address: string, device: string | null) => {
    const browser = browserAt(address);
    browser.device = device;
    return browser;
  };
  const laptop = browserAt('192.0.2.1');
  assert.equal((await laptop.signIn(RIGHT)).status, 200);
  const blockedNetwork = '198.51.100.201';
  await service.clock.advance({ minutes: 61 });
  for (let guess = 0; guess < FAILURES_MAX; guess += 1) await guessAt(blockedNetwork);
  assertFailure(await browserAt(blockedNetwork).signIn(RIGHT), 429, 'rate_limit_error');
  assert.equal((await at(blockedNetwork, laptop.device).signIn(RIGHT)).status, 200);

  const madeUp = laptop.device!.replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A'));
  assertFailure(await at(blockedNetwork, madeUp).signIn(RIGHT), 429, 'rate_limit_error');
  const other = { ...RIGHT, email: 'somebody@acme.test' };
  assertFailure(await at(blockedNetwork, laptop.device).signIn(other), 429, 'rate_limit_error');

  for (let guess = 0; guess < FAILURES_MAX; guess += 1) {
    const wrong = { ...RIGHT, password: 'wrong password' };
    const response = await at('192.0.2.2', laptop.device).signIn(wrong);
    assertFailure(response, 401, 'authentication_error');
  }
  assertFailure(await at('192.0.2.2', laptop.device).signIn(RIGHT), 429, 'rate_limit_error');
  assert.equal((await browserAt('192.0.2.2').signIn(RIGHT)).status, 200);
});

test('a new password ends the privilege of browsers of earlier sign-ins', async () => {
  const [old, present] = [browserAt('192.0.2.3'), browserAt('192.0.2.3')];
  assert.equal((await old.signIn(RIGHT)).status, 200);
  assert.equal((await present.signIn(RIGHT)).status, 200);
  const change = { current_password: RIGHT.password, password: 'a quite different passphrase' };
  assert.equal((await present.post('/v1/session/password', change)).status, 200);
  const changed = { email: OWNER.email, password: change.password };
  for (let guess = 0; guess <= FAILURES_MAX; guess += 1) await guessAt('192.0.2.4');
  const signInAs = ({ device }: Browser) => {
    const browser = browserAt('192.0.2.4');
    browser.device = device;
    return browser.signIn(changed);
  };
  assertFailure(await signInAs(old), 429, 'rate_limit_error');
  assert.equal((await signInAs(present)).status, 200);
  const back = { current_password: change.password, password: RIGHT.password };
  assert.equal((await present.post('/v1/session/password', back)).status, 200);
});

/** Guesses per second, more than a process can hash. */
const FLOOD_PER_SECOND = 120;

/** Runs the work during a flood of strangers' guesses. Their rate does not depend on the responses. */
async function duringFlood(
  addressOf: (n: number) => string,
  work: () => Promise<void>,
  { wrongBefore = 0 } = {},
) {
  const statuses: Record<number, number> = {};
  const guesses = new Set<Promise<void>>();
  let asked = 0;
  const guess = async (): Promise<void> => {
    const n = (asked += 1);
    const who = { email: `jo${n}@acme.test`, password: 'wrong password' };
    const { status } = await browserAt(addressOf(n)).signIn(who);
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  const timer = setInterval(() => {
    const one = guess().finally(() => guesses.delete(one));
    guesses.add(one);
  }, 1_000 / FLOOD_PER_SECOND);
  try {
    const isFull = () => statuses[503] !== undefined && (statuses[401] ?? 0) >= wrongBefore;
    await waitFor(isFull, { what: 'some to be refused', timeoutMs: 60_000 });
    await work();
  } finally {
    clearInterval(timer);
    await Promise.all(guesses);
  }
}

test('a flood of sign-ins from one network does not refuse those of other networks', async () => {
  await duringFlood(
    (n) => `172.16.0.${n % 250}`,
    async () => {
      for (let n = 0; n < 10; n += 1) {
        assert.equal((await browserAt(`172.17.${n}.1`).signIn(RIGHT)).status, 200);
      }
    },
  );
});

test('a flood of sign-ins from everywhere does not refuse browsers of earlier sign-ins', async () => {
  const laptop = browserAt('192.168.2.5');
  assert.equal((await laptop.signIn(RIGHT)).status, 200);
  await duringFlood(
    (n) => `10.${2 + (n >> 8)}.${n % 256}.1`,
    async () => {
      for (let n = 0; n < 10; n += 1) assert.equal((await laptop.signIn(RIGHT)).status, 200);
    },
  );
});

test('a flood of guesses from forty networks does not refuse the right password in a new browser', async () => {
  const networks = 40;
  await duringFlood(
    (n) => `10.77.${n % networks}.${1 + (Math.floor(n / networks) % 250)}`,
    async () => {
      for (let n = 0; n < 10; n += 1) {
        const browser = browserAt(`172.18.${n}.1`);
        const wrong = await browser.signIn({ ...RIGHT, email: `owner${n}@acme.test` });
        assert.equal(wrong.status, 401, 'a typing error');
        assert.equal((await browser.signIn(RIGHT)).status, 200);
      }
    },
    // Each network has by then guessed a few times in each worker.
    { wrongBefore: 3 * networks },
  );
});
