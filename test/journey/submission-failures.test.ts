/** SMTP submission with limits, invalid keys, test keys, outages, a stop and a kill. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled, duplicates } from '../support/load.ts';
import { waitForArrivals, newScene, waitForEmptyQueue } from '../support/scene.ts';
import { type Service, startService } from '../support/service.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { idIn, logIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const FROM = 'From: Acme <hello@acme.test>';
const TO = ['delivered@simulator.test'];

function portOf(service: Service): number {
  return service.readyLine.submission_ports?.[0] ?? 0;
}

const scene = await newScene({ env: SUBMISSION_ENV });
after(() => scene[Symbol.asyncDispose]());
const { service, mx } = scene;

/** With the variables that some tests are about. */
const configured = await startService({
  env: {
    ...SUBMISSION_ENV,
    LETTERHAUS_SUBMISSION_SHOW_CLIENT: '1',
    LETTERHAUS_LIMIT_SENDING: '2/60',
    LETTERHAUS_LIMIT_AUTH: '3/60',
  },
});
after(() => configured[Symbol.asyncDispose]());

test('mail submitted with a test key goes to the simulator', async () => {
  await using client = await openLoggedIn({ port: portOf(service), key: service.testKey });
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
  for (const [where, received] of [
    [service, /^Received: by \S+ with ESMTPSA id [0-9a-f-]{36};\r\n\t/m],
    [configured, /^Received: from app\.test \(\[127\.0\.0\.1\]\)\r\n\tby \S+ with ESMTPSA id /m],
  ] as const) {
    await using client = await openLoggedIn({ port: portOf(where), key: where.testKey });
    const id = idIn(await submit(client, { to: TO, lines: [FROM, '', 'Hi'] }));
    const { text } = await where.request('GET', `/v1/emails/${id}/content`);
    assert.match(text, received);
    assert.equal(/app\.test|127\.0\.0\.1/.test(text), where === configured);
  }
});

test('the sending limit counts for SMTP and HTTP together', async () => {
  const { testKey: key } = configured;
  await using client = await openLoggedIn({ port: portOf(configured), key });
  const nextWindow = () => configured.clock.advance({ seconds: 61 });
  await nextWindow();
  await configured.send();
  const lines = [FROM, '', 'Hi'];
  idIn(await submit(client, { to: TO, lines }));
  const reply = await submit(client, { to: TO, lines });
  assert.match(reply ?? '', /^451 4\.7\.1 The limit of 2 emails per 60 s is used up; try again/);
  await nextWindow();
  idIn(await submit(client, { to: TO, lines }));
});

test('invalid keys count to the same limit as over HTTP; beyond it only a valid key is accepted', async () => {
  const port = portOf(configured);
  const attempt = async (user: string, pass: string): Promise<string> => {
    await using client = await Dialogue.greeted(port);
    await client.startTls();
    await client.ask('EHLO app.test');
    return (await logIn(client, user, pass)) ?? '';
  };
  const wrong = configured.testKey.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
  assert.match(await attempt('letterhaus', wrong), /^535 5\.7\.8 /);
  assert.match(await attempt('someone', wrong), /^535 5\.7\.8 /);
  assert.equal((await configured.request('GET', '/v1/emails', { key: wrong })).status, 401);
  assert.match(await attempt('letterhaus', wrong), /^421 4\.7\.0 .*; try again in \d+ s\.$/);
  assert.equal((await configured.request('GET', '/v1/emails', { key: wrong })).status, 429);
  assert.match(await attempt('letterhaus', configured.testKey), /^235 2\.7\.0 /);
});

test('the domain and the expiry of a key hold for SMTP', async () => {
  const made = await service.request('POST', '/v1/api-keys', {
    body: { name: 'narrow', permission: 'sending_access', domain: 'other.test' },
  });
  assert.equal(made.status, 201, made.text);
  const { key, id } = made.body;
  await using client = await openLoggedIn({ port: portOf(service), key });
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
  await using client = await openLoggedIn({
    port: portOf(configured),
    key: await configured.liveKey(),
  });
  await client.ask('MAIL FROM:<>');
  assert.match((await client.ask('RCPT TO:<jo@acme.test>')) ?? '', /^553 5\.1\.3 acme\.test is a/);
  assert.match((await client.ask('RCPT TO:<"a b"@>')) ?? '', /^553 5\.1\.3 .*not an email address/);
  assert.match((await client.ask('RCPT TO:<jo@acme.com>')) ?? '', /^250 /);
});

test('the 101st recipient of a message gets a temporary refusal, and the others get the message', async () => {
  await using client = await openLoggedIn({ port: portOf(service), key: service.testKey });
  await client.ask('MAIL FROM:<>');
  const replies = [];
  for (let index = 0; index <= 100; index += 1) {
    replies.push((await client.ask(`RCPT TO:<jo${index}@simulator.test>`))?.slice(0, 9));
  }
  const taken = Array.from({ length: 100 }, () => '250 2.1.5');
  assert.deepEqual(replies, [...taken, '452 4.5.3']);
  await client.ask('DATA');
  const id = idIn(await client.ask(`${FROM}\r\n\r\nHi\r\n.`));
  assert.equal((await service.waitForStatus(id, 'delivered')).recipients.length, 100);
});

const EMAILS = 200;

/** Sessions that hand in mail until it is all in, or they are cut off. */
async function load(onAccepted: (count: number) => void) {
  const accepted: string[] = [];
  let next = 0;
  const session = async (): Promise<void> => {
    await using client = await openLoggedIn({ port: portOf(service), key: scene.key });
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

async function settled(ids: readonly string[]): Promise<void> {
  await waitForArrivals(mx, ids);
  await waitForEmptyQueue(service);
  await assertSettled(service, ids);
}

test('a stop under load loses no message that got a 250 and repeats none', async () => {
  let stopping: Promise<number | NodeJS.Signals> | undefined;
  const accepted = await load((count) => {
    if (count >= EMAILS / 2) stopping ??= service.stop();
  });
  assert.equal(await stopping, 0);
  await service.restart();
  await settled(accepted);
  assert.equal(duplicates(arrivals(mx)), 0);
});

test('after a kill under load every message that got a 250 is delivered', async () => {
  let killed: Promise<void> | undefined;
  const accepted = await load((count) => {
    if (count >= EMAILS / 2) killed ??= service.killGroup9();
  });
  await killed;
  assert.ok(accepted.length >= EMAILS / 2);
  await service.restart();
  await settled(accepted);
});

test('without the database no message is accepted, and the reply gives the reason', async () => {
  const port = portOf(service);
  await using client = await openLoggedIn({ port, key: service.testKey });
  await service.setDatabaseReachable(false);
  const refused = async () => (await submit(client, { to: TO, lines: [FROM, '', 'Hi'] })) ?? '';
  // Its statement may have been on the way on a connection that was just ended.
  assert.match(await refused(), /^451 4\.3\.0 The .*(nothing was accepted|may have been accepted)/);
  assert.match(await refused(), /^451 4\.3\.0 The database .*; nothing was accepted/);
  const isUndecided = async () => {
    await using other = await Dialogue.greeted(port);
    await other.startTls();
    await other.ask('EHLO app.test');
    return (await logIn(other, 'letterhaus', service.testKey))?.startsWith('454 4.7.0');
  };
  // A key that was just seen is remembered for less than a second.
  await waitFor(isUndecided, { what: 'the key to be forgotten' });
  await service.setDatabaseReachable(true);
  const taken = async () => {
    const said = await submit(client, { to: TO, lines: [FROM, '', 'Hi'] });
    return said?.startsWith('250');
  };
  await waitFor(taken, { what: 'the database to be back' });
});
