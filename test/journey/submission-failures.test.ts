/** SMTP submission when something is in the way: limits, wrong keys, test keys, a stop, a kill. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startFakeDns } from '../support/fake-dns.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { arrivals, assertSettled, duplicates } from '../support/load.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { idIn, logIn, loggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const FROM = 'From: Acme <hello@acme.test>';
const TO = ['delivered@simulator.test'];

function startSubmission(env: Record<string, string> = {}, options: ServiceOptions = {}) {
  return startService({ args: ['--workers', '1'], ...options, env: { ...SUBMISSION_ENV, ...env } });
}

function portOf(service: Service): number {
  return service.readyLine.submission_ports?.[0] ?? 0;
}

/** For tests that change nothing about the service. */
const shared = await startSubmission();
after(() => shared[Symbol.asyncDispose]());

test('mail submitted with a test key goes to the simulator', async () => {
  const service = shared;
  await using client = await loggedIn({ port: portOf(service), key: service.testKey });
  for (const [local, status] of [
    ['delivered', 'delivered'],
    ['bounced', 'bounced'],
  ] as const) {
    const to = [`${local}@simulator.test`];
    const id = idIn(await submit(client, { to, lines: [FROM, 'Subject: Hi', '', 'Hi'] }));
    const email = await service.waitForStatus(id, status);
    assert.deepEqual([email.environment, email.subject, email.text], ['test', 'Hi', 'Hi\r\n']);
  }
});

test('the address of the submitting client is in the message only when that is configured', async () => {
  for (const [env, received] of [
    [{}, /^Received: by \S+ with ESMTPSA id [0-9a-f-]{36};\r\n\t/m],
    [
      { POSTHORN_SUBMISSION_SHOW_CLIENT: '1' },
      /^Received: from app\.test \(\[127\.0\.0\.1\]\)\r\n\tby \S+ with ESMTPSA id /m,
    ],
  ] as const) {
    await using service = await startSubmission(env);
    await using client = await loggedIn({ port: portOf(service), key: service.testKey });
    const id = idIn(await submit(client, { to: TO, lines: [FROM, '', 'Hi'] }));
    const { text } = await service.request('GET', `/v1/emails/${id}/content`);
    assert.match(text, received);
    assert.equal(/app\.test|127\.0\.0\.1/.test(text), 'POSTHORN_SUBMISSION_SHOW_CLIENT' in env);
  }
});

test('the sending limit counts for SMTP and HTTP together', async () => {
  await using service = await startSubmission({ POSTHORN_LIMIT_SENDING: '2/60' });
  await using client = await loggedIn({ port: portOf(service), key: service.testKey });
  await service.send();
  const lines = [FROM, '', 'Hi'];
  idIn(await submit(client, { to: TO, lines }));
  const reply = await submit(client, { to: TO, lines });
  assert.match(reply ?? '', /^451 4\.7\.1 The limit of 2 emails per 60 s is used up; try again/);
  await service.clock.advance({ seconds: 61 });
  idIn(await submit(client, { to: TO, lines }));
});

test('invalid keys count to the same limit as over HTTP; beyond it only a valid key is accepted', async () => {
  await using service = await startSubmission({ POSTHORN_LIMIT_AUTH: '3/60' });
  const port = portOf(service);
  const attempt = async (user: string, pass: string): Promise<string> => {
    await using client = await Dialogue.greeted(port);
    await client.startTls();
    await client.ask('EHLO app.test');
    return (await logIn(client, user, pass)) ?? '';
  };
  const wrong = service.testKey.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
  assert.match(await attempt('posthorn', wrong), /^535 5\.7\.8 /);
  assert.match(await attempt('someone', service.testKey), /^535 5\.7\.8 /);
  assert.equal((await service.request('GET', '/v1/emails', { key: wrong })).status, 401);
  assert.match(await attempt('posthorn', wrong), /^421 4\.7\.0 .*; try again in \d+ s\.$/);
  assert.equal((await service.request('GET', '/v1/emails', { key: wrong })).status, 429);
  assert.match(await attempt('posthorn', service.testKey), /^235 2\.7\.0 /);
});

test('the domain and the expiry of a key hold for SMTP', async () => {
  const service = shared;
  const made = await service.request('POST', '/v1/api-keys', {
    body: { name: 'narrow', permission: 'sending_access', domain: 'other.test' },
  });
  assert.equal(made.status, 201, made.text);
  const { key, id } = made.body;
  await using client = await loggedIn({ port: portOf(service), key });
  const lines = [FROM, '', 'Hi'];
  const reply = await submit(client, { to: TO, lines });
  assert.match(reply ?? '', /^550 5\.7\.1 This key may only send from other\.test/);
  await service.request('POST', '/v1/domains', { body: { name: 'other.test' } });
  const { data } = (await service.request('GET', '/v1/domains')).body;
  const domain = data.find(({ name }: { name: string }) => name === 'other.test');
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  idIn(await submit(client, { to: TO, lines: ['From: a@other.test', '', 'Hi'] }));
  await service.request('DELETE', `/v1/api-keys/${id}`);
  const refused = await submit(client, { to: TO, lines: ['From: a@other.test', '', 'Hi'] });
  assert.match(refused ?? '', /^550 5\.7\.8 The API key is not valid/);
});

test('with a live key, recipients in reserved domains are refused at RCPT', async () => {
  const service = shared;
  await using client = await loggedIn({ port: portOf(service), key: await service.liveKey() });
  await client.ask('MAIL FROM:<>');
  assert.match((await client.ask('RCPT TO:<jo@acme.test>')) ?? '', /^553 5\.1\.3 acme\.test is a/);
  assert.match((await client.ask('RCPT TO:<"a b"@>')) ?? '', /^553 5\.1\.3 .*not an email address/);
  assert.match((await client.ask('RCPT TO:<jo@acme.com>')) ?? '', /^250 /);
});

test('the 51st recipient of a message gets a temporary refusal', async () => {
  const service = shared;
  await using client = await loggedIn({ port: portOf(service), key: service.testKey });
  await client.ask('MAIL FROM:<>');
  const replies = [];
  for (let index = 0; index <= 50; index += 1) {
    replies.push((await client.ask(`RCPT TO:<jo${index}@simulator.test>`))?.slice(0, 9));
  }
  const taken = Array.from({ length: 50 }, () => '250 2.1.5');
  assert.deepEqual(replies, [...taken, '452 4.5.3']);
  await client.ask('DATA');
  const id = idIn(await client.ask(`${FROM}\r\n\r\nHi\r\n.`));
  assert.equal((await service.waitForStatus(id, 'delivered')).recipients.length, 50);
});

test('without the database no message is accepted, and the reply gives the reason', async () => {
  await using service = await startSubmission();
  const port = portOf(service);
  await using client = await loggedIn({ port, key: service.testKey });
  await service.setDatabaseReachable(false);
  const reply = await submit(client, { to: TO, lines: [FROM, '', 'Hi'] });
  assert.match(reply ?? '', /^451 4\.3\.0 The database .*; nothing was accepted/);
  const isUndecided = async () => {
    await using other = await Dialogue.greeted(port);
    await other.startTls();
    await other.ask('EHLO app.test');
    return (await logIn(other, 'posthorn', service.testKey))?.startsWith('454 4.7.0');
  };
  // A key that was just seen is remembered for less than a second.
  await waitFor(isUndecided, { what: 'the key to be forgotten', timeoutMs: 30_000 });
  await service.setDatabaseReachable(true);
  const taken = async () => {
    const said = await submit(client, { to: TO, lines: [FROM, '', 'Hi'] });
    return said?.startsWith('250');
  };
  await waitFor(taken, { what: 'the database to be back', timeoutMs: 30_000 });
});

const EMAILS = 300;

/** Sessions that hand in mail until it is all in, or they are cut off. */
async function load(service: Service, key: string, onAccepted: (count: number) => void) {
  const accepted: string[] = [];
  let next = 0;
  const session = async (): Promise<void> => {
    await using client = await loggedIn({ port: portOf(service), key });
    while (next < EMAILS) {
      const index = next++;
      const lines = ['From: hello@acme.example.org', `Subject: ${index}`, '', 'Hi'];
      const reply = await submit(client, { to: [`jo${index}@receiver.example.org`], lines });
      if (reply === null || !reply.startsWith('250')) return;
      accepted.push(idIn(reply));
      onAccepted(accepted.length);
    }
  };
  await Promise.all(Array.from({ length: 8 }, session));
  return accepted;
}

async function newScene() {
  const mx = await startFakeMx();
  const dns = await startFakeDns();
  dns.set('receiver.example.org', 'MX', ['10 mx.example.org']);
  dns.set('mx.example.org', 'A', [mx.address]);
  const env = {
    POSTHORN_MX_PORT: String(mx.port),
    POSTHORN_ALLOW_PRIVATE_NETWORKS: '1',
    POSTHORN_LIMIT_SENDING: '1000000/60',
    POSTHORN_LOG: 'warn',
  };
  const service = await startSubmission(env, { dns });
  await service.addLiveDomain('acme.example.org');
  const settled = async (ids: readonly string[]): Promise<void> => {
    const missing = () => {
      const counts = arrivals(mx);
      return ids.filter((id) => !counts.has(id));
    };
    const what = `all of ${ids.length} accepted emails to arrive`;
    await waitFor(() => missing().length === 0, { what, timeoutMs: 60_000 });
    const isEmpty = async () => (await service.sql('select from queue limit 1')).length === 0;
    await waitFor(isEmpty, { what: 'the queue to be empty', timeoutMs: 60_000 });
    await assertSettled(service, ids);
  };
  return {
    service,
    mx,
    settled,
    key: await service.liveKey(),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await dns[Symbol.asyncDispose]();
      await mx[Symbol.asyncDispose]();
    },
  };
}

test('a stop under load loses no message that got a 250 and repeats none', async () => {
  await using scene = await newScene();
  const { service, mx, key } = scene;
  let stopping: Promise<number | NodeJS.Signals> | undefined;
  const accepted = await load(service, key, (count) => {
    if (count >= EMAILS / 2) stopping ??= service.stop();
  });
  assert.equal(await stopping, 0);
  await service.restart();
  await scene.settled(accepted);
  assert.equal(duplicates(arrivals(mx)), 0);
});

test('after a kill under load every message that got a 250 is delivered', async () => {
  await using scene = await newScene();
  const { service, key } = scene;
  let killed: Promise<void> | undefined;
  const accepted = await load(service, key, (count) => {
    if (count >= EMAILS / 2) killed ??= service.killGroup9();
  });
  await killed;
  assert.ok(accepted.length >= EMAILS / 2);
  await service.restart();
  await scene.settled(accepted);
});
