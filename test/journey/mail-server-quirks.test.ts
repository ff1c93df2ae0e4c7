/** Mail servers with old, slow or unusual behaviour. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

// One worker, so that it meets the connections again that it has kept.
const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

const NAMES = ['kim', 'lee', 'max', 'eve', 'pat', 'sam'];

const TAKING: Record<string, MxBehaviour> = {
  'knows no EHLO': { phases: { ehlo: '502 5.5.1 What?' } },
  'has no extension at all': { pipelining: false, smtpUtf8: false },
  'greets in many lines': { phases: { greeting: '220-mx ESMTP\n220-Be nice.\n220 Go on' } },
  'sends its replies byte by byte': {
    phases: { ehlo: { reply: '250-fake.test\n250 PIPELINING', dripMs: 2 } },
  },
  'hangs up without a goodbye': { phases: { quit: { drop: 'rst' } } },
};

for (const [index, [what, behaviour]] of Object.entries(TAKING).entries()) {
  test(`a server that ${what} gets its mail`, async () => {
    const domain = `taking${index}.test`;
    const mx = await journey.mailServer(domain, behaviour);
    for (const name of NAMES.slice(0, 3)) {
      const { recipients } = await journey.ended(await journey.send({ to: `${name}@${domain}` }));
      assert.deepEqual([recipients[0].status, recipients[0].attempts], ['delivered', 1]);
    }
    assert.equal(mx.messages.length, 3);
  });
}

test('an idle connection that the server has closed costs no attempt', async () => {
  const idle = '421 4.4.2 Idle for too long';
  // Half of the time it says so at the next message only, as many do.
  const mail = NAMES.flatMap(() => ['250 2.1.0 Ok', idle]);
  const mx = await journey.mailServer('idle.test', { phases: { mail } });
  const send = async (name: string) => {
    const { recipients } = await journey.ended(await journey.send({ to: `${name}@idle.test` }));
    assert.deepEqual([recipients[0].status, recipients[0].attempts], ['delivered', 1]);
  };
  for (const name of NAMES) await send(name);
  assert.equal(mx.connections, NAMES.length);
  mx.set({});
  for (const name of NAMES) {
    for (const { socket } of mx.sessions) socket.destroy();
    await send(name);
  }
  assert.equal(mx.messages.length, 2 * NAMES.length);
});

/** Faults that happen once, and the report about the recipient meanwhile. */
const PUT_OFF: Record<string, { behaviour: MxBehaviour; category?: string; code: number | null }> =
  {
    'has too many connections': {
      behaviour: { phases: { rcpt: '421 4.7.0 Too many connections from you' } },
      code: 421,
    },
    'has no room': {
      behaviour: { phases: { mail: '452 4.3.1 Insufficient system storage' } },
      code: 452,
    },
    'cannot decide about the message': {
      behaviour: { phases: { data: '451 4.3.0 Scanner is away' } },
      code: 451,
    },
    'takes the message before it was sent': {
      behaviour: { phases: { data_command: '250 2.0.0 Fine' } },
      code: null,
    },
    'talks nonsense': {
      behaviour: { phases: { rcpt: 'maybe' } },
      category: 'protocol',
      code: null,
    },
    'replies twice': {
      behaviour: { phases: { mail: '250 2.1.0 Ok\n250 2.1.0 Ok\n250 2.1.0 Ok\n250 2.1.0 Ok' } },
      category: 'protocol',
      code: null,
    },
  };

for (const [index, [what, { behaviour, category, code }]] of Object.entries(PUT_OFF).entries()) {
  test(`an email waits for a server that ${what}`, async () => {
    const domain = `waiting${index}.test`;
    const mx = await journey.mailServer(domain, behaviour);
    const id = await journey.send({ to: `kim@${domain}` });
    const { status, recipients } = await journey.attempted(id);
    assert.deepEqual([status, recipients[0].smtp.code], ['deferred', code]);
    if (category !== undefined) assert.equal(recipients[0].reason.category, category);
    assert.equal(mx.messages.length, 0);
    mx.set({});
    assert.equal((await journey.retry(id)).status, 'delivered');
    assert.equal(mx.messages.length, 1);
  });
}

test('replies of servers are shown without control characters', async () => {
  const rude = '550 5.7.1 \u001b[2J\u0007 <script>alert(1)</script> \u202egnirts end\r\n';
  await journey.mailServer('rude.test', { messageReplies: { kim: { raw: rude } } });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@rude.test' }));
  const { status, smtp } = recipients[0];
  assert.equal(status, 'bounced');
  assert.match(smtp.message, /<script>alert\(1\)<\/script>.*end$/);
  assert.doesNotMatch(smtp.message, /[\0-\x1f\x7f\u202e]/);
});

test('an email is shown as sending, and as deferred when the attempt fails', async () => {
  const mx = await journey.mailServer('slow.test', { phases: { rcpt: {} } });
  const id = await journey.send({ to: 'kim@slow.test' });
  await waitFor(
    () => mx.sessions.some(({ lines }) => lines.some((line) => line.includes('RCPT'))),
    {
      what: 'the dialogue to begin',
    },
  );
  const { status, recipients } = await journey.email(id);
  assert.deepEqual(
    [status, recipients[0].status, recipients[0].attempts],
    ['sending', 'sending', 0],
  );
  mx.set({});
  for (const { socket } of mx.sessions) socket.resetAndDestroy();
  assert.equal((await journey.attempted(id)).status, 'deferred');
  assert.equal((await journey.retry(id)).status, 'delivered');
});

test('fifty recipients in ten domains each get a copy and an event', async () => {
  const domains = Array.from({ length: 10 }, (_, index) => `many${index}.test`);
  const servers = await Promise.all(domains.map((domain) => journey.mailServer(domain)));
  const to = domains.flatMap((domain) => NAMES.slice(0, 5).map((name) => `${name}@${domain}`));
  const id = await journey.send({ to: to.slice(0, 20), cc: to.slice(20, 30), bcc: to.slice(30) });
  const { status } = await journey.ended(id);
  assert.equal(status, 'delivered');
  const reached = servers.flatMap(({ messages }) => messages.flatMap((one) => one.recipients));
  assert.deepEqual(reached.toSorted(), to.toSorted());
  const events = await journey.timeline(id);
  assert.equal(events.length, 51);
  const notified = events.slice(1).map(({ recipient }): string => recipient);
  assert.deepEqual(notified.toSorted(), to.toSorted());
});
