/** The second factor of members. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf, currentCode, tokenOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const env = { LETTERHAUS_LIMIT_AUTH: '1000/60', LETTERHAUS_SECRET_KEY: 's'.repeat(40) };
const service = await startService({ env });
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
const { email, password } = OWNER;

const signIn = (code?: string): Promise<ApiResponse> =>
  new Browser(service).post('/v1/session', {
    email,
    password,
    ...(code !== undefined && { code }),
  });

/** Codes of later periods are not valid yet; the tests go there. */
async function freshCode(secret: string): Promise<string> {
  await service.clock.advance({ seconds: 60 });
  return currentCode(service, secret);
}

async function begin(): Promise<string> {
  const begun = await owner.post('/v1/session/totp', { password });
  assert.equal(begun.status, 200, begun.text);
  return begun.body.secret;
}

async function switchOn(): Promise<{ secret: string; codes: string[]; used: string }> {
  const secret = await begin();
  const code = await freshCode(secret);
  const confirmed = await owner.post('/v1/session/totp/confirm', { code });
  assert.equal(confirmed.status, 200, confirmed.text);
  return { secret, codes: confirmed.body.recovery_codes, used: code };
}

const switchOff = () => owner.request('DELETE', '/v1/session/totp', { body: { password } });
const state = async () => (await owner.get('/v1/session/totp')).body;

test('a secret counts from its first code on, and beginning needs the password', async () => {
  const wrong = await owner.post('/v1/session/totp', { password: 'wrong password' });
  assertFailure(wrong, 422, 'validation_error', /^Your current password is wrong\.$/);
  const early = await owner.post('/v1/session/totp/confirm', { code: '123456' });
  assertFailure(early, 409, 'conflict', /begin again/);
  const { body } = await owner.post('/v1/session/totp', { password });
  assert.match(body.secret, /^[A-Z2-7]{32}$/);
  assert.ok(body.url.startsWith(`otpauth://totp/Letterhaus%20Acme:owner%40acme.test?secret=`));
  assert.equal(new URL(body.url).searchParams.get('secret'), body.secret);
  assert.equal((await signIn()).status, 200);
  const refused = await owner.post('/v1/session/totp/confirm', { code: 'abcdef' });
  assertFailure(refused, 422, 'validation_error', /^code/);
  assert.deepEqual(await state(), { object: 'totp', enabled: false, recovery_codes_left: 0 });
});

test('with a second factor the password is not enough, and a code works once', async () => {
  const { secret, used } = await switchOn();
  assert.deepEqual(await state(), { object: 'totp', enabled: true, recovery_codes_left: 10 });
  assert.equal((await owner.get('/v1/session')).body.totp_enabled, true);
  assertFailure(await owner.post('/v1/session/totp', { password }), 409, 'conflict');
  assertFailure(await signIn(), 401, 'totp_required', /^Enter the code/);
  const guess = await new Browser(service).post('/v1/session', {
    email,
    password: 'wrong password',
  });
  assertFailure(guess, 401, 'authentication_error');
  assertFailure(await signIn(used), 401, 'totp_required', /used already/);
  const code = await freshCode(secret);
  const responses = await Promise.all([signIn(code), signIn(code), signIn(code)]);
  assert.equal(responses.filter(({ status }) => status === 200).length, 1);
  assertFailure(await signIn(code), 401, 'totp_required');
  await service.clock.advance({ minutes: 2 });
  const old = await currentCode(service, secret, { ahead: -3 });
  assertFailure(await signIn(old), 401, 'totp_required');
  assert.equal((await switchOff()).status, 200);
  assert.equal((await signIn()).status, 200);
});

test('a recovery code works once instead of a code', async () => {
  const { codes } = await switchOn();
  assert.equal(codes.length, 10);
  const [code = ''] = codes;
  assert.equal((await signIn(code.toUpperCase())).status, 200);
  assertFailure(await signIn(code), 401, 'totp_required');
  assert.equal((await state()).recovery_codes_left, 9);
  const rows = await service.sql('select recovery_codes::text as text from recovery_codes');
  for (const { text } of rows) assert.ok(!codes.some((one) => text.includes(one)));
  await switchOff();
  assertFailure(await owner.post('/v1/session/totp/confirm', { code }), 409, 'conflict');
});

test('wrong codes are limited more strictly than passwords', async () => {
  const { secret, codes } = await switchOn();
  await service.clock.advance({ minutes: 16 });
  for (let n = 0; n < 10; n += 1) {
    assertFailure(await signIn(`wrong ${n}`), 401, 'totp_required');
  }
  assertFailure(await signIn(codes[0]), 429, 'rate_limit_error');
  assertFailure(await signIn(await freshCode(secret)), 429, 'rate_limit_error');
  assert.equal((await owner.get('/v1/session')).status, 200);
  await switchOff();
});

test('a member who has lost the device gets a link, and the second factor is switched off', async () => {
  const { codes } = await switchOn();
  const { sign_in_url } = await service.cliJson('owner', 'reset', email, '--remove-totp');
  const token = tokenOf(sign_in_url);
  assert.equal((await signIn()).status, 200);
  assert.equal((await owner.post('/v1/session/reset', { token, password })).status, 200);
  assert.deepEqual(await state(), { object: 'totp', enabled: false, recovery_codes_left: 0 });
  assert.equal((await signIn(codes[0])).status, 200);
});

test('the secret is stored sealed, for its member only, and is not logged', async () => {
  const { secret } = await switchOn();
  const [row] = await service.sql('select totp_secret, members::text as text from members');
  assert.ok(row.totp_secret.length > 40);
  assert.ok(!row.text.includes(secret) && !service.logs.includes(secret));
  const { body: page } = await owner.get('/v1/audit_log?limit=100');
  assert.ok(!JSON.stringify(page).includes(secret));
  assert.ok(page.data.some(({ action }: { action: string }) => action === 'confirmTotp'));
});
