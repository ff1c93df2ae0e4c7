/** Suppressions: which addresses the service adds, the effect of an entry, and the command line. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME } from '../support/api.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const dns = await startFakeDns();
const service = await startService({
  dns,
  env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1', LETTERHAUS_HOSTNAME: 'mail.letterhaus.example' },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});

type Body = ApiResponse['body'];

const post = (to: string | string[], key = service.testKey, from = EMAIL.from) =>
  service.request('POST', '/v1/emails', { key, body: { ...EMAIL, from, to } });

const cli = (...args: string[]) =>
  service.cliJson('suppressions', ...args, '--environment', 'test');

const listed = async (): Promise<Body[]> => (await cli('list')).data;

const entryOf = async (address: string) =>
  (await listed()).find((entry: Body) => entry.address === address) ?? null;

test('a suppressed address gets no mail until it is removed, with events for both', async () => {
  await using receiver = await startReceiver();
  const events = ['suppression.added', 'suppression.removed'];
  await service.request('POST', '/v1/webhooks', { body: { url: receiver.url, events } });
  const added = await cli('add', 'Jo@List.test');
  const { created_at, etag, ...entry } = added;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.match(created_at, TIME);
  assert.deepEqual(entry, {
    object: 'suppression',
    address: 'Jo@list.test',
    reason: 'manual',
    source_email_id: null,
    expires_at: null,
    simulated: false,
    environment: 'test',
  });
  assert.deepEqual(await listed(), [added]);
  for (const to of ['jo@list.test', 'JO@list.test', 'Jo <jo@LIST.test>']) {
    assertFailure(await post(to), 422, 'suppressed', /suppress/);
  }
  assert.equal((await post('jo+label@list.test')).status, 202);
  await cli('remove', 'jo@list.test');
  assert.deepEqual(await listed(), []);
  assert.equal((await post('jo@list.test')).status, 202);
  const received = await receiver.waitForCount(2);
  const types = received.map(({ event }) => event.type).toSorted();
  assert.deepEqual(types, events);
  for (const { event } of received) assert.equal(event.data.address, 'Jo@list.test');
});

test('when only some recipients are suppressed the others get the email', async () => {
  await cli('add', 'not-me@list.test');
  const to = ['delivered@simulator.test', 'not-me@list.test'];
  const response = await post(to);
  assert.equal(response.status, 202, response.text);
  const email = await service.waitForStatus(response.body.id, 'suppressed');
  assert.deepEqual(
    email.recipients.map(({ address, status, attempts }: Body) => [address, status, attempts]),
    [
      [to[0], 'delivered', 1],
      [to[1], 'suppressed', 0],
    ],
  );
  const { body } = await service.request('GET', `/v1/emails/${response.body.id}/events`);
  const types = body.data.map(({ type, recipient }: Body) => `${type} ${recipient}`);
  assert.ok(
    types.includes(`email.suppressed ${to[1]}`) && types.includes(`email.delivered ${to[0]}`),
  );
});

/** One address in other scripts, as people and programs write it. */
const WRITINGS = [
  'jörg901@bücher.test',
  'JÖRG901@bücher.test',
  'JO\u0308RG901@xn--bcher-kva.test',
  '"Jörg901"@BÜCHER.test',
];

test('an address is on the list in every spelling', async () => {
  const [first = '', other = ''] = WRITINGS;
  const sent = await service.send({ to: other });
  const get = (path: string) => service.request('GET', path);
  const of = (address: string) => `/v1/suppressions/${encodeURIComponent(address)}`;
  const add = (address: string) =>
    service.request('POST', '/v1/suppressions', { body: { address } });
  assert.equal((await add(first)).status, 201);
  for (const address of WRITINGS) {
    assert.equal((await add(address)).status, 200, address);
    assert.equal((await get(of(address))).body.address, 'jörg901@xn--bcher-kva.test');
    assert.equal((await get(`${of(address)}/history`)).body.data.length, 1);
    assertFailure(await post(address), 422, 'suppressed');
    const { body } = await get(`/v1/emails?to=${encodeURIComponent(address)}`);
    assert.deepEqual(
      body.data.map(({ id }: Body) => id),
      [sent],
      address,
    );
    const log = await service.cliJson('log', '--to', address);
    assert.deepEqual(
      log.data.map(({ type }: Body) => type).filter((type: string) => type.startsWith('supp')),
      ['suppression.added'],
    );
  }
  for (const prefix of ['JÖ', 'jo\u0308RG90']) {
    const { body } = await get(`/v1/suppressions?address=${encodeURIComponent(prefix)}`);
    assert.equal(body.data.length, 1, prefix);
  }
  const imported = await service.request('POST', '/v1/suppressions/import', {
    headers: { 'content-type': 'text/csv' },
    body: `address,reason\n${WRITINGS[2]},complaint\n`,
  });
  assert.deepEqual([imported.body.added, imported.body.already_there], [0, 1]);
  const batch = await service.request('POST', '/v1/emails/batch', {
    body: [{ ...EMAIL, to: other }, EMAIL],
  });
  assert.match(batch.text, /suppressed/);
  const removed = await service.request('DELETE', of(WRITINGS[3] ?? ''));
  assert.deepEqual([removed.status, (await get(of(first))).status], [200, 404]);
  assert.equal((await post(first)).status, 202);
});

test('addresses that only look like a suppressed one, or have another tag, get mail', async () => {
  await cli('add', 'ısı@dest.test');
  for (const to of ['isi@dest.test', 'ISI@dest.test', 'ısı+news@dest.test', 'ı.sı@dest.test']) {
    assert.equal((await post(to)).status, 202, to);
  }
  assertFailure(await post('ıSı@dest.test'), 422, 'suppressed');
});

test('only bounces about the mailbox and complaints add to the list, and the list stops no mail to the simulator', async () => {
  const send = async (to: string, status: string) => {
    const id = await service.send({ to });
    await service.waitForStatus(id, status);
    return id;
  };
  const bounced = await send('Bounced+s@simulator.test', 'bounced');
  const complained = await send('complained+s@simulator.test', 'complained');
  await send('blocked+s@simulator.test', 'bounced');
  await send('full+s@simulator.test', 'deferred');
  await send('suppressed+s@simulator.test', 'suppressed');
  const entries = (await listed()).filter(({ address }) => /\+s@/.test(address));
  assert.deepEqual(
    entries.map(({ address, reason, source_email_id, expires_at, simulated }: Body) => [
      address,
      reason,
      source_email_id,
      expires_at,
      simulated,
    ]),
    [
      ['Bounced+s@simulator.test', 'hard_bounce', bounced, null, true],
      ['complained+s@simulator.test', 'complaint', complained, null, true],
    ],
  );
  await send('bounced+s@simulator.test', 'bounced');
  await send('complained+s@simulator.test', 'complained');
  const { stdout } = await service.cli(
    'suppressions',
    'show',
    'bounced+s@simulator.test',
    '--environment',
    'test',
  );
  assert.match(stdout, /It is a simulator address, so it still gets mail/);
});

test('mail to a suppressed address of the simulator still has its outcome', async () => {
  const reasons = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'];
  const addresses = [
    'delivered+list@simulator.test',
    'Anybody@simulator.test',
    'delivered@resend.dev',
    'Delivered+order-7@resend.dev',
  ];
  for (const [index, address] of addresses.entries()) {
    const body = { address, reason: reasons[index] };
    const { status, body: entry } = await service.request('POST', '/v1/suppressions', { body });
    assert.deepEqual([status, entry.simulated], [201, true], address);
    await service.waitForStatus(await service.send({ to: address }), 'delivered');
  }
  const batch = addresses.map((to) => ({ ...EMAIL, to: [to, to.replace('@', '+cc@')] }));
  const { body: accepted } = await service.request('POST', '/v1/emails/batch', { body: batch });
  for (const { id } of accepted.data) await service.waitForStatus(id, 'delivered');
  const id = await service.send({ to: 'deferred+list@simulator.test' });
  await service.waitForStatus(id, 'deferred');
  await cli('add', 'deferred+list@simulator.test');
  await service.clock.advance({ minutes: 1 });
  await service.waitForStatus(id, 'delivered');
  // Addresses of which the domain or the name only looks like one.
  for (const address of ['jo@sub.simulator.test', 'jo@resend.dev', 'bounced.jo@resend.dev']) {
    const { body } = await service.request('POST', '/v1/suppressions', { body: { address } });
    assert.equal(body.simulated, false);
    assertFailure(await post(address), 422, 'suppressed');
  }
});

test('an address that is added while an email waits gets no further attempt', async () => {
  const scheduled_at = new Date(Date.now() + 300_000).toISOString();
  const id = await service.send({ to: 'waiting@list.test', scheduled_at });
  await cli('add', 'waiting@list.test');
  await service.clock.advance({ minutes: 10 });
  const { recipients } = await service.waitForStatus(id, 'suppressed');
  assert.equal(recipients[0].status, 'suppressed');
});

test('each environment has its own list', async () => {
  const live = await service.liveKey();
  await service.addLiveDomain('acme.example');
  dns.setFailure('customer.example', 'servfail');
  const from = 'a@acme.example';
  await cli('add', 'jo@customer.example');
  assert.equal((await post('jo@customer.example', live, from)).status, 202);
  await service.cliJson('suppressions', 'add', 'ann@customer.example');
  assertFailure(await post('ann@customer.example', live, from), 422, 'suppressed');
  assert.equal((await post('ann@customer.example')).status, 202);
});

test('an address in a domain that does not exist is suppressed for seven days', async () => {
  const live = await service.liveKey();
  const from = 'a@acme.example';
  const to = 'jo@does-not-exist.example';
  const { body } = await post(to, live, from);
  const { recipients } = await service.waitForStatus(body.id, 'bounced', { key: live });
  assert.equal(recipients[0].reason.category, 'mailbox');
  const { data } = await service.cliJson('suppressions', 'list', '--environment', 'live');
  const entry = data.find(({ address }: Body) => address === to);
  assert.deepEqual([entry.reason, entry.source_email_id], ['hard_bounce', body.id]);
  const days = (Date.parse(entry.expires_at) - Date.parse(entry.created_at)) / 86_400_000;
  assert.equal(days, 7);
  assertFailure(await post(to, live, from), 422, 'suppressed');
  await service.clock.advance({ hours: 7 * 24 + 1 });
  assert.equal((await post(to, live, from)).status, 202);
});

test('the command line reports a missing entry and an invalid address', async () => {
  const nobody = await service.cli('suppressions', 'remove', 'nobody@simulator.test');
  assert.deepEqual([nobody.code, /not suppressed/.test(nobody.stderr)], [1, true]);
  const wrong = await service.cli('suppressions', 'add', 'nobody');
  assert.equal(wrong.code, 2);
  assert.equal(await entryOf('nobody@simulator.test'), null);
});
