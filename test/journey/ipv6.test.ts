/** Peers over IPv6: mail servers that have only an AAAA record, submission, inbound reports and the API over ::1. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { clientOf } from '../../src/net/ip-addresses.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';
import { feedbackReport } from '../support/reports.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { idIn, logIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({
  ...SUBMISSION_ENV,
  HOST: '::1',
  LETTERHAUS_SMTP_HOST: '::1',
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SUBMISSION_SHOW_CLIENT: '1',
});
const mx = await startFakeMx({}, { address: '::1', port: journey.port });
after(async () => {
  await journey[Symbol.asyncDispose]();
  await mx[Symbol.asyncDispose]();
});
const { service, dns } = journey;
const [submissionPort = 0] = service.readyLine.submission_ports ?? [];
const HOST = { host: '::1' };

dns.set('mx.six.test', 'AAAA', ['::1']);
for (const domain of ['six.test', 'reports.test']) dns.set(domain, 'MX', ['10 mx.six.test']);
dns.set('both.test', 'MX', ['10 mx.both.test']);
dns.set('mx.both.test', 'AAAA', ['::1']);
// Nobody listens there.
dns.set('mx.both.test', 'A', ['127.0.9.9']);
dns.set('hostless.test', 'AAAA', ['::1']);

test('the API is served over IPv6', () => {
  assert.match(service.url, /^http:\/\/\[::1\]:\d+$/);
});

for (const [domain, what] of [
  ['six.test', 'an MX with only an AAAA record'],
  ['both.test', 'an MX whose IPv4 address is dead'],
  ['hostless.test', 'a domain without MX that has an AAAA record'],
] as const) {
  test(`${what} gets mail over IPv6`, async () => {
    const { recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    const [{ status, attempts, smtp }] = recipients;
    assert.deepEqual([status, attempts, smtp.ip], ['delivered', 1, '::1']);
    assert.equal(mx.sessions.at(-1)?.client, '::1');
  });
}

test('connections that are not logged in are limited for a /64', async () => {
  // Before the first log-in, after which a client may have more.
  const open: Dialogue[] = [];
  const greetings: string[] = [];
  for (let count = 0; count < 25; count += 1) {
    const dialogue = await Dialogue.open(submissionPort, HOST);
    open.push(dialogue);
    greetings.push((await dialogue.readReply()) ?? '');
  }
  for (const dialogue of open) await dialogue[Symbol.asyncDispose]();
  assert.match(greetings[0]!, /^220 /);
  assert.match(greetings.at(-1)!, /^421 4\.7\.0 /);
  // The machine has one loopback address of IPv6; that a /64 is one client is the same function everywhere.
  assert.equal(clientOf('2001:db8::1'), clientOf('2001:db8::ffff:1:2:3'));
  assert.notEqual(clientOf('2001:db8::1'), clientOf('2001:db8:0:1::1'));
});

async function takesConnections(): Promise<boolean> {
  await using dialogue = await Dialogue.open(submissionPort, HOST);
  return (await dialogue.readReply())?.startsWith('220 ') === true;
}

test('mail is submitted over IPv6, and the trace names the address', async () => {
  // The connections of the test before may not be closed yet.
  await waitFor(takesConnections, { what: 'a connection to be taken' });
  await using client = await Dialogue.greeted(submissionPort, HOST);
  await client.startTls();
  await client.ask('EHLO app.test');
  const reply = await logIn(client, 'letterhaus', await journey.key());
  assert.match(reply ?? '', /^235 /);
  const lines = ['From: hello@acme.example', 'To: lee@six.test', '', 'Hello'];
  const id = idIn(await submit(client, { to: ['lee@six.test'], lines }));
  assert.equal((await journey.ended(id)).status, 'delivered');
  const raw = String(mx.messages.at(-1)?.raw);
  assert.match(raw, /^Received: from app\.test \(\[IPv6:::1\]\)\r\n/m);
});

test('a report over IPv6 counts', async () => {
  const id = await journey.send({ to: 'kim@reports.test' });
  await journey.ended(id);
  const { envelopeFrom } = mx.messages.at(-1)!;
  await using server = await Dialogue.greeted(service.readyLine.inbound_port ?? 0, HOST);
  await server.ask('MAIL FROM:<>');
  assert.match((await server.ask(`RCPT TO:<${envelopeFrom}>`)) ?? '', /^250 /);
  await server.ask('DATA');
  server.send(`${feedbackReport('gone@elsewhere.test')}\r\n.\r\n`);
  assert.match((await server.readReply()) ?? '', /^250 /);
  const isComplaint = async () => (await journey.email(id)).recipients[0].status === 'complained';
  await waitFor(isComplaint, { what: 'the complaint' });
});
