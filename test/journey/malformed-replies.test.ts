/**
 * Mail servers that send malformed data: garbage, endless lines and replies, replies without a
 * command. Each is disconnected after little was read, the attempt has phase and reason, the email is
 * tried again, and other mail is not delayed.
 */
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { FakeReply, FakePhase, MxBehaviour } from '../support/fake-mx.ts';
import { type MailServer, startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

// One worker, which is the one that meets all of them.
const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

/** A server of a provider of its own: what one does has no effect on the others. */
function ownServer(domain: string, behaviour: MxBehaviour = {}): Promise<MailServer> {
  return journey.mailServer(domain, behaviour, { provider: domain });
}

type Hostile = { at: FakePhase; reply: FakeReply; says: RegExp };

const MEGABYTE = Buffer.alloc(1024 * 1024, 'x');
/** Limit on the bytes of a reply without an end. Sockets buffer some megabytes by themselves. */
const SENT_BYTES_MAX = 32 * MEGABYTE.length;

const NO_REPLY = /a line that is not an SMTP reply/;
const TOO_LONG = /a reply of more than 64 KiB/;
const UNASKED = /without being asked|an unrequested reply/;

const HOSTILE: Record<string, Hostile> = {
  'greets as a web server': {
    at: 'greeting',
    reply: { raw: 'HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n' },
    says: NO_REPLY,
  },
  'greets with 10 MB on one line': {
    at: 'greeting',
    reply: { raw: MEGABYTE, times: 10 },
    says: NO_REPLY,
  },
  'greets with 10 MB of lines': {
    at: 'greeting',
    reply: { raw: `220-${'x'.repeat(1018)}\r\n`.repeat(1024), times: 10 },
    says: TOO_LONG,
  },
  'replies to EHLO without end': {
    at: 'ehlo',
    reply: { raw: '250-MORE\r\n'.repeat(1000), times: Infinity },
    says: TOO_LONG,
  },
  'replies to MAIL with a line without end': {
    at: 'mail',
    reply: { raw: MEGABYTE, times: Infinity },
    says: NO_REPLY,
  },
  'replies to RCPT with noise without end': {
    at: 'rcpt',
    reply: { raw: Buffer.from('\u0000\u001f\u00ff\r\n'.repeat(10_000)), times: Infinity },
    says: NO_REPLY,
  },
  'replies to RCPT with a NUL': {
    at: 'rcpt',
    reply: { raw: '250 a\0b\r\n' },
    says: /a NUL character/,
  },
  'replies to RCPT with two codes at once': {
    at: 'rcpt',
    reply: { raw: '250-a\r\n550 b\r\n' },
    says: /lines have different codes/,
  },
  'speaks before it is asked': {
    at: 'greeting',
    reply: '220 fake.test\n250 2.1.0 Ok\n250 2.1.5 Ok\n354 Go',
    says: UNASKED,
  },
  'replies to DATA twice': { at: 'data_command', reply: '354 Go\n250 2.0.0 Taken', says: UNASKED },
  'takes the message before it was sent': {
    at: 'data_command',
    reply: '250 2.0.0 Taken',
    says: /replied 250, which is not valid here/,
  },
};

/** Limit on the memory of a dozen sessions with endless replies at once. */
const GROWTH_MB_MAX = 200;

/** The most memory that the worker ever had, in MB. */
async function peakMb(): Promise<number> {
  const [{ pid }] = await journey.service.sql('select pid from nodes');
  const [, kb] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Math.round(Number(kb) / 1024);
}

type Sent = { mx: MailServer; id: string };

test('malformed replies defer an email with the reason and delay no other mail', async (t) => {
  const beforeMb = await peakMb();
  const slow = await ownServer('trickling.test', {
    phases: { greeting: { raw: '2', times: 1_000_000, dripMs: 20 } },
  });
  const waiting = await journey.send({ to: 'kim@trickling.test' });
  const sent = new Map<string, Sent>();
  for (const [index, [what, { at, reply }]] of Object.entries(HOSTILE).entries()) {
    const domain = `hostile${index}.test`;
    const mx = await ownServer(domain, { phases: { [at]: reply } });
    sent.set(what, { mx, id: await journey.send({ to: `kim@${domain}` }) });
  }
  const good = await ownServer('good.test');
  const goodId = await journey.send({ to: 'kim@good.test' });

  for (const [what, { at, says }] of Object.entries(HOSTILE)) {
    await t.test(`a server that ${what}`, () => isLeft(sent.get(what)!, { at, says }));
  }
  await t.test('the memory of the worker stays small', async () => {
    const grownMb = (await peakMb()) - beforeMb;
    t.diagnostic(`${grownMb} MB more than ${beforeMb} MB`);
    assert.ok(grownMb < GROWTH_MB_MAX, `${grownMb} MB`);
  });
  await t.test(
    'mail to other servers arrives while one server sends its reply byte by byte',
    async () => {
      const { recipients } = await journey.ended(goodId);
      assert.deepEqual([recipients[0].status, recipients[0].attempts], ['delivered', 1]);
      assert.equal(good.messages.length, 1);
      assert.equal((await journey.email(waiting)).status, 'sending');
    },
  );
  await t.test('when the servers recover, all of them get their mail', async () => {
    for (const { socket } of slow.sessions) socket.destroy();
    for (const { mx } of [{ mx: slow }, ...sent.values()]) mx.set({});
    assert.equal((await journey.attempted(waiting)).status, 'deferred');
    await journey.pass({ hours: 5 });
    for (const id of [waiting, ...[...sent.values()].map((one) => one.id)]) {
      assert.equal((await journey.ended(id)).status, 'delivered');
    }
  });
});

async function isLeft({ mx, id }: Sent, { at, says }: Omit<Hostile, 'reply'>): Promise<void> {
  const { status, recipients } = await journey.attempted(id);
  const [{ smtp, reason, attempts, next_attempt_at: nextAttemptAt }] = recipients;
  assert.deepEqual([status, attempts, smtp.code], ['deferred', 1, null]);
  assert.match(smtp.message, says);
  assert.deepEqual([reason.category, reason.blame], ['protocol', 'receiver']);
  assert.ok(nextAttemptAt !== null);
  const [, { attempt }] = await journey.timeline(id);
  // A reply that comes too early is noticed in the phase that waits for another one.
  if (says !== UNASKED) assert.equal(attempt.phase, at);
  assert.equal(attempt.in_doubt ?? false, false);
  assert.equal(mx.messages.length, 0);
  for (const session of mx.sessions) {
    await waitFor(() => session.ended, { what: 'the connection to be closed' });
    assert.ok(session.socket.bytesWritten < SENT_BYTES_MAX, `${session.socket.bytesWritten} bytes`);
  }
}

test('after a malformed reply to the final dot no other server is tried, and the same message is sent again', async () => {
  const nonsense = { raw: 'what?\r\n', keep: true } as const;
  const first = await journey.mailServer('doubtful.test', { phases: { data: nonsense } });
  const second = await journey.mailServer('doubtful.test', {}, { preference: 20 });
  const id = await journey.send({ to: 'kim@doubtful.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'network']);
  assert.match(recipients[0].reason.advice, /may have arrived/);
  const [, { attempt }] = await journey.timeline(id);
  assert.deepEqual([attempt.phase, attempt.in_doubt], ['data', true]);
  assert.equal(second.connections, 0);
  first.set({});
  assert.equal((await journey.retry(id)).status, 'delivered');
  assert.equal(first.messages.length, 2);
  assert.deepEqual(first.messages[1]?.raw, first.messages[0]?.raw);
});

test('a reply that is not valid UTF-8 counts, and is shown with replacement characters', async () => {
  const raw = Buffer.concat([
    Buffer.from('550 5.1.1 Utilisateur inconnu: '),
    Buffer.from([0xe9, 0xff, 0xfe]),
    Buffer.from('\r\n'),
  ]);
  await ownServer('latin.test', { recipients: { kim: { raw } } });
  const { status, recipients } = await journey.ended(await journey.send({ to: 'kim@latin.test' }));
  assert.deepEqual([status, recipients[0].smtp.code], ['bounced', 550]);
  assert.equal(recipients[0].smtp.message, 'Utilisateur inconnu: \ufffd\ufffd\ufffd');
});
