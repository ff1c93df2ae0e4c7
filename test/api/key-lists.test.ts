/** Keys that are limited to networks of clients, to senders and to recipients, over HTTP and SMTP. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { openEventStream } from '../support/event-stream.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { idIn, logIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({
  env: {
    ...SUBMISSION_ENV,
    LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
    LETTERHAUS_LIMIT_SENDING: '1000/60',
  },
  args: ['--workers', '2'],
});
after(() => service[Symbol.asyncDispose]());
const port = service.readyLine.submission_ports?.[0] ?? 0;

type Body = ApiResponse['body'];

async function makeKey(rights: object = {}, by = service.testKey): Promise<Body> {
  const body = { name: 'made by a test', permission: 'sending_access', ...rights };
  const response = await service.request('POST', '/v1/api-keys', { key: by, body });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const change = (id: string, body: object) =>
  service.request('PATCH', `/v1/api-keys/${id}`, { body });

/** Sends from this address, as a trusted proxy reports it. */
const sendFrom = (address: string, key: string, email: object = {}) =>
  service.request('POST', '/v1/emails', {
    key,
    headers: { 'x-forwarded-for': address },
    body: { ...EMAIL, ...email },
  });
const send = (key: string, email: object = {}) => sendFrom('192.0.2.1', key, email);
const batchOf = (key: string, emails: object[], validation = 'strict') =>
  service.request('POST', '/v1/emails/batch', {
    key,
    headers: { 'x-batch-validation': validation },
    body: emails.map((email) => ({ ...EMAIL, ...email })),
  });

const STAGING = 'delivered@simulator.test';
const OTHER = 'bounced@simulator.test';

// Networks.

test('a key for networks is refused elsewhere, and the refusal names the address and no network', async () => {
  const { key, allowed_networks: shown } = await makeKey({
    allowed_networks: ['203.0.113.77/24', '2001:DB8::/32', '203.0.113.0/24'],
  });
  assert.deepEqual(shown, ['203.0.113.0/24', '2001:db8::/32']);
  assert.equal((await sendFrom('203.0.113.9', key)).status, 202);
  assert.equal((await sendFrom('2001:db8:9::1', key)).status, 202);
  for (const address of ['198.51.100.7', '2001:db9::1']) {
    const refused = await sendFrom(address, key);
    assertFailure(refused, 403, 'key_restricted', new RegExp(`may not be used from ${address};`));
    assert.ok(!/203\.0|2001:db8/.test(refused.text));
  }
  const read = await service.request('GET', '/v1/emails', { key });
  assertFailure(read, 403, 'key_restricted', /from 127\.0\.0\.1;/);
  const asResend = await service.request('POST', '/emails', { key, body: EMAIL });
  assert.equal(asResend.body.name, 'restricted_api_key');
});

test('a stranger learns nothing of a key that is not valid, and a valid key is not a failed attempt', async () => {
  const { key, id } = await makeKey({ allowed_networks: ['203.0.113.0/24'] });
  await service.request('DELETE', `/v1/api-keys/${id}`);
  assertFailure(await sendFrom('198.51.100.7', key), 401, 'authentication_error');
  const limited = await makeKey({ allowed_networks: ['203.0.113.0/24'] });
  for (let n = 0; n < 25; n += 1) {
    assertFailure(await sendFrom('198.51.100.8', limited.key), 403, 'key_restricted');
  }
  assertFailure(await sendFrom('198.51.100.8', key), 401, 'authentication_error');
});

test('the project sees in its API log that its key was used from elsewhere', async () => {
  const { key, id } = await makeKey({ allowed_networks: ['203.0.113.0/24'] });
  const refused = await sendFrom('198.51.100.7', key);
  const path = `/v1/requests/${refused.body.error.request_id}`;
  const entry = await waitFor(
    async () => {
      const { status, body } = await service.request('GET', path);
      return status === 200 && body;
    },
    { what: 'the request to be in the log', everyMs: 100 },
  );
  assert.deepEqual(
    [entry.status, entry.actor.id, entry.network, entry.error.code],
    [403, id, '198.51.100.0', 'key_restricted'],
  );
});

test('a change of the networks holds from the next request on, on every worker', async () => {
  const { key, id } = await makeKey();
  assert.equal((await sendFrom('198.51.100.7', key)).status, 202);
  const changed = await change(id, { allowed_networks: ['203.0.113.0/24'] });
  assert.deepEqual(changed.body.allowed_networks, ['203.0.113.0/24']);
  for (let n = 0; n < 20; n += 1) {
    assertFailure(await sendFrom('198.51.100.7', key), 403, 'key_restricted');
  }
  assert.deepEqual((await change(id, { name: 'renamed' })).body.allowed_networks, [
    '203.0.113.0/24',
  ]);
  assert.equal((await change(id, { allowed_networks: null })).body.allowed_networks, null);
  assert.equal((await sendFrom('198.51.100.7', key)).status, 202);
});

test('an open event stream ends when its key may no longer be used from there', async () => {
  const { key, id } = await makeKey({ permission: 'full_access' });
  await using stream = await openEventStream(service.url, { key });
  await change(id, { allowed_networks: ['203.0.113.0/24'] });
  await stream.waitForEnd();
});

test('SMTP accepts a key in its networks only, also in a session that is open', async () => {
  const { key, id } = await makeKey({ allowed_networks: ['127.0.0.0/8'] });
  const lines = ['From: Acme <hello@acme.test>', '', 'Hi'];
  await using client = await openLoggedIn({ port, key });
  idIn(await submit(client, { to: [STAGING], lines }));
  await change(id, { allowed_networks: ['203.0.113.0/24'] });
  const refused = await submit(client, { to: [STAGING], lines });
  assert.match(refused ?? '', /^550 5\.7\.1 This key may not be used from 127\.0\.0\.1;/);
  await using stranger = await Dialogue.greeted(port);
  await stranger.startTls();
  await stranger.ask('EHLO app.test');
  const reply = await logIn(stranger, 'letterhaus', key);
  assert.match(reply ?? '', /^535 5\.7\.8 This key may not be used from 127\.0\.0\.1;/);
});

// Senders and recipients.

test('a key for senders sends from these only, alone and in batches, and dry runs say so', async () => {
  await service.request('POST', '/v1/domains', { body: { name: 'shop.test' } });
  const { key } = await makeKey({ allowed_senders: ['Billing@acme.test', '*.acme.test'] });
  assert.equal((await send(key, { from: 'Bills <billing@ACME.test>' })).status, 202);
  const refused = await send(key, { from: 'ceo@acme.test' });
  assertFailure(refused, 403, 'key_restricted', /may not send from ceo@acme\.test;/);
  assert.ok(!/billing/i.test(refused.text));
  const dry = await service.request('POST', '/v1/emails?dry_run=true', {
    key,
    body: { ...EMAIL, from: 'ceo@acme.test' },
  });
  assertFailure(dry, 403, 'key_restricted', /ceo@acme\.test/);
  const own = { from: 'billing@acme.test' };
  const strict = await batchOf(key, [own, { from: 'ceo@acme.test' }]);
  assertFailure(strict, 403, 'key_restricted', /^\[1\]: This key may not send from ceo@acme\.test/);
  const permissive = await batchOf(key, [{ from: 'ceo@acme.test' }, own], 'permissive');
  assert.equal(permissive.status, 202, permissive.text);
  assert.equal(permissive.body.data.length, 1);
  assert.deepEqual(
    permissive.body.errors.map((one: Body) => [one.index, one.code]),
    [[0, 'key_restricted']],
  );
});

test('a key for recipients refuses an email to anybody else, in every role', async () => {
  const { key } = await makeKey({ allowed_recipients: [STAGING] });
  assert.equal((await send(key, { to: 'DELIVERED@simulator.test' })).status, 202);
  for (const [role, value] of Object.entries({ to: [STAGING, OTHER], cc: OTHER, bcc: OTHER })) {
    const refused = await send(key, { to: STAGING, [role]: value });
    assertFailure(refused, 403, 'key_restricted', /may not send to bounced@simulator\.test/);
  }
  const dry = await service.request('POST', '/v1/emails?dry_run=true', {
    key,
    body: { ...EMAIL, to: OTHER },
  });
  assertFailure(dry, 403, 'key_restricted');
  assertFailure(await batchOf(key, [{ to: STAGING }, { to: OTHER }]), 403, 'key_restricted');
});

test('SMTP refuses other senders after the message, and other recipients one by one', async () => {
  const { key } = await makeKey({
    allowed_senders: ['billing@acme.test'],
    allowed_recipients: [STAGING],
  });
  await using client = await openLoggedIn({ port, key });
  const from = (address: string) => [`From: ${address}`, '', 'Hi'];
  const sender = await submit(client, { to: [STAGING], lines: from('ceo@acme.test') });
  assert.match(sender ?? '', /^550 5\.7\.1 This key may not send from ceo@acme\.test/);
  await client.ask('RSET');
  const shown = ['Sender: The Boss <ceo@acme.test>', ...from('billing@acme.test')];
  const beside = await submit(client, { to: [STAGING], lines: shown });
  assert.match(beside ?? '', /^550 5\.7\.1 This key may not send from ceo@acme\.test/);
  await client.ask('RSET');
  const own = ['Sender: billing@acme.test', ...from('billing@acme.test')];
  idIn(await submit(client, { to: [STAGING], lines: own }));
  await client.ask('RSET');
  const recipient = await submit(client, { to: [OTHER], lines: from('billing@acme.test') });
  assert.match(recipient ?? '', /^550 5\.7\.1 This key may not send to bounced@simulator\.test/);
  await client.ask('RSET');
  idIn(await submit(client, { to: [STAGING], lines: from('billing@acme.test') }));
});

test('a change of the lists holds for the next email on every worker', async () => {
  const { key, id } = await makeKey();
  assert.equal((await send(key, { to: OTHER })).status, 202);
  await change(id, { allowed_recipients: [STAGING] });
  for (let n = 0; n < 20; n += 1) {
    assertFailure(await send(key, { to: OTHER }), 403, 'key_restricted');
  }
  assert.equal((await send(key, { to: STAGING })).status, 202);
});

test('a repeated request gets its first response, also when the lists refuse it now', async () => {
  const { key, id } = await makeKey();
  const repeat = () =>
    service.request('POST', '/v1/emails', {
      key,
      headers: { 'idempotency-key': 'before the list' },
      body: { ...EMAIL, to: OTHER },
    });
  const first = await repeat();
  await change(id, { allowed_recipients: [STAGING] });
  const second = await repeat();
  assert.deepEqual([first.status, second.status, second.text], [202, 200, first.text]);
});

// Lists of keys.

test('problems of a list are reported by entry', async () => {
  for (const [rights, message] of [
    [
      { allowed_networks: ['10.0.0.0/8', 'office'] },
      /^allowed_networks\[1\]: is not an IP address/,
    ],
    [{ allowed_networks: [] }, /^allowed_networks: /],
    [{ allowed_networks: Array.from({ length: 21 }, () => '::1') }, /^allowed_networks: .*20/],
    [{ allowed_senders: ['Jo <jo@acme.test>'] }, /^allowed_senders\[0\]: is not an address, a dom/],
    [{ allowed_recipients: ['*'] }, /^allowed_recipients\[0\]: /],
    [
      { domain: 'acme.test', allowed_senders: ['jo@shop.test'] },
      /^allowed_senders\[0\]: is not of acme\.test/,
    ],
  ] as const) {
    const body = { name: 'wrong', ...rights };
    const response = await service.request('POST', '/v1/api-keys', { body });
    assertFailure(response, 422, 'validation_error', message);
  }
});

test('a key with lists makes and sees no key that admits more, and keeps its lists when it is rotated', async () => {
  const lists = {
    allowed_networks: ['127.0.0.0/8', '10.0.0.0/8'],
    allowed_senders: ['acme.test', 'shop.test'],
    allowed_recipients: [STAGING, OTHER],
  };
  const own = await makeKey({ permission: 'full_access', ...lists });
  const ask = (method: string, path: string, body?: object) =>
    service.request(method, path, { key: own.key, ...(body && { body }) });
  const inherited = await makeKey({}, own.key);
  const narrower = await makeKey({ allowed_recipients: [OTHER] }, own.key);
  assert.deepEqual(
    [inherited.allowed_networks, inherited.allowed_senders, inherited.allowed_recipients],
    Object.values(lists),
  );
  assert.deepEqual(narrower.allowed_recipients, [OTHER]);
  for (const broader of [
    { allowed_networks: null },
    { allowed_networks: ['0.0.0.0/0'] },
    { allowed_senders: ['other.test'] },
    { allowed_recipients: [STAGING, 'simulator.test'] },
  ]) {
    const made = await ask('POST', '/v1/api-keys', { name: 'broader', ...broader });
    assertFailure(made, 403, 'authorization_error', /allowed_networks, allowed_senders/);
    const changed = await ask('PATCH', `/v1/api-keys/${own.id}`, broader);
    assertFailure(changed, 403, 'authorization_error');
    const { id } = await makeKey({ ...lists, ...broader });
    for (const [method, path] of [
      ['PATCH', `/v1/api-keys/${id}`],
      ['DELETE', `/v1/api-keys/${id}`],
      ['POST', `/v1/api-keys/${id}/rotate`],
    ] as const) {
      assertFailure(
        await ask(method, path, method === 'PATCH' ? { name: 'x' } : {}),
        404,
        'not_found',
      );
    }
  }
  const { body: seen } = await ask('GET', '/v1/api-keys?limit=100');
  const ids = seen.data.map(({ id }: Body) => id);
  assert.deepEqual(new Set(ids), new Set([own.id, inherited.id, narrower.id]));
  assert.equal(ids.length, 3);
  const rotated = await ask('POST', `/v1/api-keys/${narrower.id}/rotate`);
  assert.deepEqual(rotated.body.allowed_recipients, [OTHER]);
  const asResend = await service.request('POST', '/api-keys', {
    key: own.key,
    body: { name: 'Resend' },
  });
  const current = await service.request('GET', '/v1/api-keys/current', {
    key: asResend.body.token,
  });
  assert.deepEqual(current.body.allowed_senders, lists.allowed_senders);
});

test('a key for a domain that the project does not have has a warning until the domain is added', async () => {
  const made = await makeKey({ domain: 'nope.test' });
  const ofSender = await makeKey({
    allowed_senders: ['jo@later.test', '*.acme.test', 'acme.test'],
  });
  assert.equal(made.warnings.length, 1);
  assert.match(made.warnings[0], /^nope\.test is not a domain of this project and environment/);
  assert.deepEqual(
    ofSender.warnings.map((warning: string) => warning.split(' ')[0]),
    ['later.test', '*.acme.test'],
  );
  for (const name of ['later.test', 'mail.acme.test']) {
    await service.request('POST', '/v1/domains', { body: { name } });
  }
  const { body } = await service.request('GET', '/v1/api-keys?limit=100');
  const warningsOf = (id: string) => body.data.find((one: Body) => one.id === id).warnings;
  assert.equal(warningsOf(made.id).length, 1);
  assert.deepEqual(warningsOf(ofSender.id), []);
});
