/** Passkeys (WebAuthn), with an authenticator in software. test/browser/ has those of a browser. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { Authenticator } from '../support/authenticator.ts';
import { Browser, memberOf, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const ORIGIN = 'https://mail.acme.test';
const SITE = { origin: ORIGIN };
const { password } = OWNER;

const service = await startService({
  env: { LETTERHAUS_LIMIT_AUTH: '1000/60', LETTERHAUS_PUBLIC_URL: ORIGIN },
  args: ['--workers', '2'],
});
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

type Options = Parameters<Authenticator['create']>[1];

async function add(
  authenticator: Authenticator,
  { by = owner, options = SITE }: { by?: Browser; options?: Options } = {},
): Promise<ApiResponse> {
  const { body: creation } = await by.post('/v1/session/passkeys/start', { password });
  const credential = authenticator.create(creation, options);
  return by.post('/v1/session/passkeys', { name: 'Phone', ...credential });
}

async function signIn(
  authenticator: Authenticator,
  { browser = new Browser(service), options = SITE }: { browser?: Browser; options?: Options } = {},
): Promise<ApiResponse> {
  const { body: request } = await browser.post('/v1/session/passkey/start', {});
  return browser.post('/v1/session/passkey', authenticator.use(request, options));
}

const remove = (id: string, by = owner) =>
  by.request('DELETE', `/v1/session/passkeys/${id}`, { body: { password } });

test('a passkey of each kind signs in without address, password and code, and no longer once it is removed', async () => {
  for (const algorithm of [-7, -8, -257] as const) {
    const authenticator = new Authenticator(algorithm);
    const added = await add(authenticator);
    assert.equal(added.status, 201, added.text);
    assert.equal(added.body.name, 'Phone');
    const signedIn = await signIn(authenticator);
    assert.equal(signedIn.status, 200, signedIn.text);
    assert.equal(signedIn.body.member.email, OWNER.email);
    const [listed] = (await owner.get('/v1/session/passkeys')).body.data;
    assert.equal(listed.id, added.body.id);
    assert.ok(listed.last_used_at);
    assert.equal((await remove(listed.id)).status, 200);
    assertFailure(await signIn(authenticator), 401, 'authentication_error', /is not known here/);
  }
  const { data } = (await owner.get('/v1/audit_log?limit=5')).body;
  const actions = data.map(({ action }: { action: string }) => action);
  assert.deepEqual(actions.slice(0, 3), ['removePasskey', 'signInWithPasskey', 'addPasskey']);
});

test('adding and removing a passkey needs the password, and each member has their own', async () => {
  const wrong = await owner.post('/v1/session/passkeys/start', { password: 'wrong password' });
  assertFailure(wrong, 422, 'validation_error');
  const { id } = (await add(new Authenticator())).body;
  const other = await memberOf(service, owner, 'viewer');
  assert.deepEqual((await other.get('/v1/session/passkeys')).body.data, []);
  assertFailure(await remove(id, other), 404, 'not_found');
  const unconfirmed = await owner.request('DELETE', `/v1/session/passkeys/${id}`, {
    body: { password: 'wrong password' },
  });
  assertFailure(unconfirmed, 422, 'validation_error');
  assert.equal((await remove(id)).status, 200);
});

test('a response for another origin, host or challenge, or without a verified person, is refused', async () => {
  const authenticator = new Authenticator();
  const { id } = (await add(authenticator)).body;
  const faults: Options[] = [
    { origin: 'https://mail.acme.test.evil.test' },
    { ...SITE, userVerified: false },
    { ...SITE, crossOrigin: true },
  ];
  for (const options of faults) {
    assertFailure(
      await add(new Authenticator(), { options }),
      422,
      'validation_error',
      /^The passkey cannot/,
    );
    assertFailure(await signIn(authenticator, { options }), 401, 'authentication_error');
  }
  const browser = new Browser(service);
  const { body: request } = await browser.post('/v1/session/passkey/start', {});
  for (const changed of [{ host: 'evil.test' }, { challenge: 'x'.repeat(43) }]) {
    await browser.post('/v1/session/passkey/start', {});
    const used = authenticator.use({ ...request, ...changed }, SITE);
    assertFailure(await browser.post('/v1/session/passkey', used), 401, 'authentication_error');
  }
  const stranger = new Authenticator();
  const { body: next } = await browser.post('/v1/session/passkey/start', {});
  const { credential_id } = authenticator.use(next, SITE);
  const forged = { ...stranger.use(next, SITE), credential_id };
  assertFailure(await browser.post('/v1/session/passkey', forged), 401, 'authentication_error');
  assert.equal((await signIn(authenticator)).status, 200);
  await remove(id);
});

test('a challenge works once, for one use, in one browser', async () => {
  const authenticator = new Authenticator();
  const { id } = (await add(authenticator)).body;
  const browser = new Browser(service);
  const { body: request } = await browser.post('/v1/session/passkey/start', {});
  const { progress } = browser;
  const used = authenticator.use(request, SITE);
  const responses = await Promise.all(
    [1, 2, 3].map(() => {
      const copy = new Browser(service);
      copy.progress = progress;
      return copy.post('/v1/session/passkey', used);
    }),
  );
  assert.equal(responses.filter(({ status }) => status === 200).length, 1);
  const other = await new Browser(service).post('/v1/session/passkey', used);
  assertFailure(other, 401, 'authentication_error', /began in another browser/);
  const { body: creation } = await owner.post('/v1/session/passkeys/start', { password });
  const toRegister = await owner.post('/v1/session/passkey', authenticator.use(creation, SITE));
  assertFailure(toRegister, 401, 'authentication_error', /began in another browser/);
  await owner.signIn(OWNER);
  await remove(id);
});

test('a copied passkey is noticed by its count, and a member has at most 20 passkeys', async () => {
  const authenticator = new Authenticator();
  authenticator.signCount = 7;
  const { id } = (await add(authenticator)).body;
  authenticator.signCount = 8;
  assert.equal((await signIn(authenticator)).status, 200);
  assertFailure(await signIn(authenticator), 401, 'authentication_error');
  authenticator.signCount = 9;
  assert.equal((await signIn(authenticator)).status, 200);
  assertFailure(await add(authenticator), 409, 'conflict', /have this passkey already/);
  await remove(id);
  const added = await Promise.all(Array.from({ length: 1 }, () => add(new Authenticator())));
  assert.equal(added[0]!.status, 201);
  const rows = `insert into passkeys (id, member_id, credential_id, public_key, algorithm, sign_count, name, created_at)
                select gen_random_uuid(), member_id, decode(md5(n::text), 'hex'), public_key, algorithm, 0, n::text, now()
                  from passkeys, generate_series(1, 19) n`;
  await service.sql(rows);
  assertFailure(await add(new Authenticator()), 409, 'conflict', /20 passkeys/);
  await service.sql('delete from passkeys');
});

test('the operator removes the passkeys of a member, which a new password does not end', async () => {
  const member = await memberOf(service, owner, 'viewer');
  const { email } = (await member.get('/v1/session')).body.member;
  const strangers = new Authenticator();
  assert.equal((await add(strangers, { by: member })).status, 201);
  const own = new Authenticator();
  assert.equal((await add(own)).status, 201);
  const { sign_in_url: url } = await service.cliJson('owner', 'reset', email);
  const reset = { token: tokenOf(url), password: 'a new password of the member' };
  assert.equal((await member.post('/v1/session/reset', reset)).status, 200);
  assert.equal((await signIn(strangers)).status, 200);
  await service.cliJson('owner', 'reset', email, '--remove-passkeys');
  assertFailure(await signIn(strangers), 401, 'authentication_error', /is not known here/);
  assert.equal((await signIn(own)).status, 200);
  const { data } = (await owner.get('/v1/audit_log?limit=10')).body;
  const removal = data.find(({ action }: { action: string }) => action === 'removePasskeys');
  assert.equal(removal.actor.type, 'command');
});
