/** Clients from many addresses that hold the SMTP ports without using them. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Journey, startJourney } from '../support/journey.ts';
import { deliverReport, statusReport } from '../support/reports.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { idIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';

const ENV = { ...SUBMISSION_ENV, LETTERHAUS_INBOUND_PORT: '0' };
const FROM = 'From: Acme <hello@acme.example>';

/** For tests that change nothing about the service. */
const shared = await startJourney(ENV);
after(() => shared[Symbol.asyncDispose]());

function portsOf({ service }: Journey) {
  const { submission_ports: [starttls = 0, tls = 0] = [], inbound_port } = service.readyLine;
  return { starttls, tls, inbound: inbound_port ?? 0 };
}

/** Connects and sends nothing. @returns what each receives until it is closed */
async function idle(port: number, options: { addresses: number; each: number }) {
  const ends: Promise<string[]>[] = [];
  for (let address = 1; address <= options.addresses; address += 1) {
    const from = `127.0.9.${address}`;
    const opened = Array.from({ length: options.each }, () => Dialogue.open(port, { from }));
    for (const dialogue of await Promise.all(opened)) ends.push(dialogue.readReplies());
  }
  return ends;
}

const last = (replies: readonly string[]): string => replies.at(-1) ?? '';

test('1,120 idle clients do not block submission or reports, and are disconnected in time', async () => {
  const args = ['--workers', '1'];
  await using journey = await startJourney(
    { ...ENV, LETTERHAUS_SMTP_CLIENT_TIMEOUT_S: '8' },
    { args },
  );
  const { starttls, tls, inbound } = portsOf(journey);
  const key = await journey.key();
  const mx = await journey.mailServer('guarded.test');
  const [submission, secure, reports] = [
    await idle(starttls, { addresses: 35, each: 20 }),
    await idle(tls, { addresses: 2, each: 10 }),
    await idle(inbound, { addresses: 20, each: 20 }),
  ];
  // Nobody has logged in from this address yet.
  await using app = await openLoggedIn({ port: starttls, key });
  const to = ['jo@guarded.test'];
  const id = idIn(await submit(app, { to, lines: [FROM, 'Subject: Hi', '', 'Hi'] }));
  await journey.ended(id);
  const returnPath = mx.messages[0]?.envelopeFrom ?? '';
  const report = { to: returnPath, message: statusReport({ recipient: 'jo@guarded.test' }) };
  assert.match(await deliverReport(inbound, report), /^250 2\.6\.0 /);

  for (const replies of await Promise.all(submission)) {
    assert.match(last(replies), /^421 4\.(4\.2 Log-in timeout|3\.2 This connection is needed)/);
  }
  // It has not begun TLS, so that it gets no reply.
  for (const replies of await Promise.all(secure)) assert.deepEqual(replies, []);
  for (const replies of await Promise.all(reports)) {
    assert.match(last(replies), /^421 4\.4\.2 Timeout/);
  }
  // An authenticated client may be idle.
  assert.equal(await app.ask('NOOP'), '250 2.0.0 Ok');
});

test('a client may hold 20 unauthenticated connections; further ones are refused with the reason', async () => {
  const journey = shared;
  for (const port of [portsOf(journey).starttls, portsOf(journey).inbound]) {
    const dialogues: Dialogue[] = [];
    const greet = async (from: string) => {
      const dialogue = await Dialogue.open(port, { from });
      dialogues.push(dialogue);
      return (await dialogue.readReply()) ?? '';
    };
    for (let count = 0; count < 20; count += 1) assert.match(await greet('127.0.9.1'), /^220 /);
    assert.match(await greet('127.0.9.1'), /^421 4\.7\.0 Too many connections from your address/);
    assert.match(await greet('127.0.9.2'), /^220 /);
    for (const dialogue of dialogues) await dialogue[Symbol.asyncDispose]();
  }
});

test('a log-in at one worker makes the client known to all workers', async () => {
  await using journey = await startJourney(ENV, { args: ['--workers', '2'] });
  const port = portsOf(journey).starttls;
  const key = await journey.key();
  // More than unauthenticated clients may have, one half at each worker.
  const apps: Dialogue[] = [];
  await using first = await openLoggedIn({ port, key });
  const greet = async (): Promise<string> => {
    const dialogue = await Dialogue.open(port);
    apps.push(dialogue);
    return (await dialogue.readReply()) ?? '';
  };
  for (let count = 0; count < 40; count += 1) assert.match(await greet(), /^220 /);
  assert.equal(await first.ask('NOOP'), '250 2.0.0 Ok');
  for (const dialogue of apps) await dialogue[Symbol.asyncDispose]();
});

const LARGE = `${'x'.repeat(998)}\r\n`.repeat(21_000);

test('three unfinished messages of 21 MB do not block a bounce', async () => {
  const journey = shared;
  const { inbound } = portsOf(journey);
  const mx = await journey.mailServer('bouncing.test');
  const id = await journey.send({ to: 'jo@bouncing.test' });
  await journey.ended(id);
  const strangers: Dialogue[] = [];
  for (const from of ['127.0.9.1', '127.0.9.2', '127.0.9.3']) {
    const stranger = await Dialogue.greeted(inbound, { from });
    strangers.push(stranger);
    await stranger.ask('MAIL FROM:<>');
    await stranger.ask('RCPT TO:<postmaster@send.acme.example>');
    assert.match((await stranger.ask('DATA')) ?? '', /^354 /);
    await new Promise((resolve) => stranger.socket.write(LARGE, resolve));
  }
  const original = 'y'.repeat(70).concat('\r\n').repeat(90_000);
  const message = statusReport({ recipient: 'jo@bouncing.test' }) + original;
  const to = mx.messages[0]?.envelopeFrom ?? '';
  assert.match(await deliverReport(inbound, { to, message }), /^250 2\.6\.0 /);
  assert.equal((await journey.ended(id)).status, 'bounced');
  for (const stranger of strangers) await stranger[Symbol.asyncDispose]();
});
