/** Links that show one email: at /v1, and at the root with the official client of Resend. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { makeShareToken, readShareToken, SHARE } from '../../src/mail/links/share-link.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import { assertFailure, TIME, UNKNOWN_ID } from '../support/api.ts';
import { memberOf, ownerOf } from '../support/browser.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { startService } from '../support/service.ts';

const SECRET_KEY = 'a secret key that only this test knows';
const service = await startService({ env: { LETTERHAUS_SECRET_KEY: SECRET_KEY } });
after(() => service[Symbol.asyncDispose]());

const resend = resendClient(service);
const EMAIL = { from: 'a@acme.test', to: 'delivered@resend.dev', subject: 'Hi' };
const open = async (url: string) => {
  assert.ok(url.startsWith(`${service.url}/s/`), url);
  return service.request('GET', url.slice(service.url.length), { key: null });
};

test('anybody with the link can read the email, which runs no scripts', async () => {
  const html = '<p>Hello</p><script>alert(1)</script>';
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, html }));
  const shared = succeeded(await resend.emails.share(id, { expiresIn: '1h' }));
  assert.deepEqual([shared.object, shared.id], ['email', id]);
  const page = await open(shared.url);
  assert.equal(page.status, 200);
  assert.equal(page.text, html);
  assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.match(page.headers.get('content-security-policy')!, /^sandbox; default-src 'none';/);
  assert.match(page.headers.get('x-robots-tag')!, /noindex/);
  const changed = `${shared.url.slice(0, -1)}${shared.url.endsWith('A') ? 'B' : 'A'}`;
  assert.equal((await open(changed)).status, 404);
});

test('the page of a link is light or dark as its address says', async () => {
  const html = '<style>@media (prefers-color-scheme: dark) {}</style>';
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, html }));
  const { url } = succeeded(await resend.emails.share(id));
  assert.match((await open(`${url}?scheme=dark`)).text, /@media \(min-width: 0\)/);
  assert.match((await open(`${url}?scheme=light`)).text, /@media \(max-width: 0\)/);
  assert.equal((await open(`${url}?scheme=other`)).text, html);
});

test('an email without html is shown as text', async () => {
  const text = 'Hello <b>you</b>';
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, text }));
  const page = await open(succeeded(await resend.emails.share(id)).url);
  assert.equal(page.headers.get('content-type'), 'text/plain; charset=utf-8');
  assert.equal(page.text, text);
});

test('an expired link shows nothing', async () => {
  const { id: emailId } = succeeded(await resend.emails.send({ ...EMAIL, text: 'Hi' }));
  const { body } = await service.request('GET', '/v1/api-keys/current');
  const secret = new SecretBox(SECRET_KEY).derive(SHARE);
  const statusAt = async (expiresAtS: number) => {
    const scope = { projectId: body.project.id, environment: 'test' } as const;
    const token = makeShareToken({ ...scope, emailId, expiresAtS }, secret);
    return (await open(`${service.url}/s/${token}`)).status;
  };
  const nowS = Math.floor(Date.now() / 1000);
  assert.equal(await statusAt(nowS + 60), 200);
  assert.equal(await statusAt(nowS - 1), 404);
});

test('a link lasts for two days unless another time is given', async () => {
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, text: 'Hi' }));
  const secondsOf = async (expiresIn?: string) => {
    const { url } = succeeded(await resend.emails.share(id, expiresIn ? { expiresIn } : {}));
    const token = new URL(url).pathname.slice('/s/'.length);
    const secret = new SecretBox(SECRET_KEY).derive(SHARE);
    return readShareToken(token, [secret])!.expiresAtS;
  };
  const before = await secondsOf('48h');
  const byDefault = await secondsOf();
  assert.ok(before <= byDefault && byDefault <= (await secondsOf('48h')));
});

test('a link lasts for two days at most, and belongs to an email of the project', async () => {
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, text: 'Hi' }));
  succeeded(await resend.emails.share(id, { expiresIn: '48 hours' }));
  for (const expiresIn of ['49h', '3 days', 'for ever', '1s']) {
    const refused = await resend.emails.share(id, { expiresIn });
    failed(refused, 422, 'validation_error', /^expires_in: must be/);
  }
  failed(await resend.emails.share(UNKNOWN_ID), 404, 'not_found');
  const live = resendClient(service, await service.liveKey());
  failed(await live.emails.share(id), 404, 'not_found');
});

test('at /v1 the time is in seconds, and the response says when the link ends', async () => {
  const id = await service.send({ html: '<p>Shared</p>' });
  const share = (body: object, key = service.testKey) =>
    service.request('POST', `/v1/emails/${id}/share`, { body, key });
  const { status, body } = await share({ expires_in: 60 });
  assert.equal(status, 200);
  const { url, expires_at, ...rest } = body;
  assert.deepEqual(rest, { object: 'email', id });
  assert.match(expires_at, TIME);
  const page = await open(url);
  assert.deepEqual([page.status, page.text], [200, '<p>Shared</p>']);
  const longest = await share({});
  assert.ok(longest.body.expires_at > expires_at);
  for (const expires_in of [59, 172_801, 0, -1, 1e15]) {
    const refused = await share({ expires_in });
    assertFailure(refused, 422, 'validation_error');
    assert.match(refused.body.error.message, /^expires_in: must be 1 minute to 48 hours/);
  }
  for (const wrong of [{ expires_in: '1h' }, { expires_in: 90.5 }, { expires: 60 }]) {
    assertFailure(await share(wrong), 422, 'validation_error');
  }
  assertFailure(await share({}, await service.liveKey()), 404, 'not_found');
});

test('a sending-only key shares only emails that it sent', async () => {
  const permission = { name: 'x', permission: 'sending_access' };
  const made = await service.request('POST', '/v1/api-keys', { body: permission });
  const { key } = made.body;
  const [own, other] = [await service.send({}, { key }), await service.send()];
  const share = (id: string) =>
    service.request('POST', `/v1/emails/${id}/share`, { key, body: {} });
  assert.equal((await share(own)).status, 200);
  assertFailure(await share(other), 404, 'not_found');
});

test('a viewer gets a link for the frame of the preview, which ends after a minute', async () => {
  const owner = await ownerOf(service);
  const viewer = await memberOf(service, owner, 'viewer');
  const id = await service.send({ html: '<p>Previewed</p>' });
  const preview = (email: string, headers: Record<string, string> = {}) =>
    viewer.get(`/v1/emails/${email}/preview`, { 'letterhaus-project': project, ...headers });
  const project = String((await viewer.get('/v1/session')).body.projects[0].id);
  const beforeS = Math.floor(Date.now() / 1000);
  const { status, body } = await preview(id);
  assert.equal(status, 200);
  const { url, expires_at, ...rest } = body;
  assert.deepEqual(rest, { object: 'email_preview', id });
  assert.ok(Date.parse(expires_at) / 1000 >= beforeS + 59);
  assert.ok(Date.parse(expires_at) / 1000 <= Date.now() / 1000 + 61);
  assert.equal((await open(url)).text, '<p>Previewed</p>');

  assertFailure(await preview(UNKNOWN_ID), 404, 'not_found');
  assertFailure(await preview(id, { 'letterhaus-environment': 'live' }), 404, 'not_found');
  const byKey = await service.request('GET', `/v1/emails/${id}/preview`);
  assertFailure(byKey, 403, 'authorization_error');
  const { data } = (await owner.get('/v1/audit_log')).body;
  assert.ok(data.every(({ action }: { action: string }) => action !== 'previewEmail'));
});
