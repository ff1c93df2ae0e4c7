/**
 * A service without access to private networks, as in production: what it refuses from a live key or from any key, and
 * which setting the refusal names. With access, as most tests start it, the service accepts all of these requests.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { assertFailure, EMAIL } from '../support/api.ts';
import { changing } from '../support/changing.ts';
import { failed, resendClient } from '../support/resend.ts';
import { startService } from '../support/service.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const key = await service.liveKey();

const post = (path: string, body: object) => service.request('POST', path, { body });
const postLive = (path: string, body: object) => service.request('POST', path, { key, body });

test('reserved domains are accepted with a test key and refused with a live key', async () => {
  const { post: send, accepted } = changing(service);
  await service.addLiveDomain('acme.example');
  const from = 'a@acme.example';
  const domains = 'a.test test.example a.invalid a.localhost example.com example.net example.org';
  for (const domain of [...domains.split(' '), 'mail.example.com']) {
    const to = [`jo@${domain}`];
    await accepted({ to });
    assertFailure(await send({ from, to }, key), 422, 'validation_error', /^to\[0\]: .*reserved/);
    assertFailure(await send({ from, to: 'jo@acme.io', bcc: to }, key), 422, 'validation_error');
  }
  const real = await send({ from, to: 'jo@examples.com', reply_to: 'jo@example.com' }, key);
  assert.equal(real.status, 202, real.text);
});

test('a live key without a public URL gets an error that names the setting, and can use its own link', async () => {
  await service.addLiveDomain('acme.org');
  const email = { ...EMAIL, from: 'a@acme.org', to: 'jo@acme.org' };
  const refused = await postLive('/v1/emails', { ...email, unsubscribe: true });
  assertFailure(
    refused,
    422,
    'validation_error',
    /^unsubscribe: needs LETTERHAUS_PUBLIC_URL, the https/,
  );
  const own = { ...email, unsubscribe: 'https://acme.org/leave' };
  assert.equal((await postLive('/v1/emails', own)).status, 202);
});

test('live tracking without a tracking URL gets an error that names the setting', async () => {
  const name = 'tracked.org';
  await service.addLiveDomain(name);
  const email = { ...EMAIL, from: `a@${name}`, to: 'jo@acme.org', tracking: { clicks: true } };
  const sent = await postLive('/v1/emails', email);
  assertFailure(sent, 422, 'validation_error', /^tracking\.clicks: needs LETTERHAUS_TRACKING_URL/);

  const { body } = await service.request('GET', '/v1/domains', { key });
  const { id } = body.data.find((domain: { name: string }) => domain.name === name);
  const path = `/v1/domains/${id}`;
  const change = { tls: 'enforced', tracking: { opens: true } };
  const refused = await service.request('PATCH', path, { key, body: change });
  assertFailure(
    refused,
    422,
    'validation_error',
    /^tracking\.opens: needs LETTERHAUS_TRACKING_URL/,
  );
  assert.equal((await service.request('GET', path, { key })).body.tls, 'opportunistic');

  const byHand = await service.cli('domains', 'set-tracking', name, 'both');
  assert.equal(byHand.code, 2);
  assert.match(byHand.stderr, /tracking\.opens: needs LETTERHAUS_TRACKING_URL/);

  const domain = { name: 'live.test', openTracking: true };
  const atRoot = await resendClient(service, key).domains.create(domain);
  failed(atRoot, 422, 'validation_error', /^open_tracking: needs LETTERHAUS_TRACKING_URL/);
});

test('attachments are downloaded from public addresses only, over https', async (t) => {
  const asked: (string | undefined)[] = [];
  const web = createServer(({ url }, response) => {
    asked.push(url);
    response.end('%PDF-1.7 terms');
  });
  t.after(() => web.close());
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const { port } = web.address() as AddressInfo;
  const refusals: [path: string, message: RegExp][] = [
    [`http://127.0.0.1:${port}/terms.pdf`, /must start with https:\/\//],
    ['https://127.0.0.1/a', /cannot be reached from the internet/],
    ['https://169.254.169.254/latest', /cannot be reached from the internet/],
    ['https://[fd00::1]/a', /cannot be reached from the internet/],
    ['https://localhost/a', /name of a private network/],
    ['https://files.acme.test:8443/a', /port 8443 is not allowed/],
  ];
  for (const [path, message] of refusals) {
    const attachments = [{ filename: 'a.txt', path }];
    const response = await post('/v1/emails', { ...EMAIL, attachments });
    assertFailure(response, 422, 'validation_error', /^attachments\[0\]\.path: /);
    assert.match(response.body.error.message, message, path);
  }
  assert.deepEqual(asked, []);
});

test('only public https URLs can be registered as webhooks', async () => {
  const refused = [
    'http://acme.com/',
    'https://127.0.0.1/',
    'https://10.0.0.1/',
    'https://[::1]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://localhost/',
    'https://acme.com:8443/',
    'https://0x7f000001/',
  ];
  for (const url of refused) {
    const { status, body } = await post('/v1/webhooks', { url });
    assert.equal(status, 422, url);
    assert.match(body.error.message, /^url: /);
  }
  assert.equal((await post('/v1/webhooks', { url: 'https://acme.com/hooks' })).status, 201);
});
