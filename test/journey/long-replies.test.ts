/**
 * Mail servers with long replies. The first line decides: an accepted message is not sent again, and a refused one
 * bounces. The rest costs neither memory nor time.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { FakeReply, MxBehaviour } from '../support/fake-mx.ts';
import { type MailServer, startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({ LETTERHAUS_SMTP_TIMEOUT_S: '3' });
after(() => journey[Symbol.asyncDispose]());

function ownServer(domain: string, behaviour: MxBehaviour): Promise<MailServer> {
  return journey.mailServer(domain, behaviour, { provider: domain });
}

const LINES = (code: number, count: number) => `${code}-2.0.0 Very welcome\r\n`.repeat(count);
/** Limit on the bytes of a reply without an end. Sockets buffer some megabytes by themselves. */
const SENT_BYTES_MAX = 32 * 1024 * 1024;

/** After the final dot. `keep`: the server has the message. */
const TAKEN: Record<string, FakeReply> = {
  'of 1,000 lines': { raw: `${LINES(250, 1000)}250 2.0.0 Taken\r\n`, keep: true },
  'of one line with 20 KB': { raw: `250 2.0.0 ${'x'.repeat(20_000)}\r\n`, keep: true },
  'of one line without end': {
    raw: `250 2.0.0 ${'x'.repeat(500_000)}`,
    times: Infinity,
    keep: true,
  },
  'of lines without end': { raw: LINES(250, 1000), times: Infinity, keep: true },
  'that never comes to its end': { raw: LINES(250, 1), keep: true },
  'whose rest is malformed': { raw: `${LINES(250, 1)}and much more\r\n`, keep: true },
  'that is cut off': { reply: '250-2.0.0 Taken', drop: 'fin', keep: true },
};

test('a message that was accepted with a reply of any length is delivered once', async (t) => {
  const sent = new Map<string, { mx: MailServer; id: string }>();
  for (const [index, [what, data]] of Object.entries(TAKEN).entries()) {
    const domain = `talks${index}.test`;
    const mx = await ownServer(domain, { phases: { data } });
    sent.set(what, { mx, id: await journey.send({ to: `kim@${domain}` }) });
  }
  for (const [what, { mx, id }] of sent) {
    await t.test(`a reply ${what}`, async () => {
      const { recipients } = await journey.attempted(id);
      const [{ status, attempts, smtp }] = recipients;
      assert.deepEqual([status, attempts, smtp.code], ['delivered', 1, 250]);
      assert.equal(mx.messages.length, 1);
      assert.ok(smtp.message.length <= 2048);
      assert.ok(mx.sessions[0]!.socket.bytesWritten < SENT_BYTES_MAX);
    });
  }
});

test('the session of an endless reply is closed, and one of a long reply is kept', async () => {
  const endless = await ownServer('endless.test', {
    phases: { data: { raw: LINES(250, 1000), times: Infinity, keep: true } },
  });
  const long = await ownServer('long.test', {
    phases: {
      greeting: `${LINES(220, 500).replaceAll('\r\n', '\n')}220 Hi`,
      data: `${LINES(250, 500).replaceAll('\r\n', '\n')}250 Taken`,
    },
  });
  for (const mx of [endless, long]) {
    const domain = mx === endless ? 'endless.test' : 'long.test';
    for (const to of [`jo@${domain}`, `kim@${domain}`]) {
      assert.equal((await journey.ended(await journey.send({ to }))).status, 'delivered');
    }
    assert.equal(mx.messages.length, 2);
  }
  await waitFor(() => endless.sessions.every(({ ended }) => ended), { what: 'both to be closed' });
  assert.deepEqual([endless.connections, long.connections], [2, 1]);
});

test('a refusal decides by its first line at every command', async () => {
  const refusal: FakeReply = { raw: LINES(550, 1000), times: Infinity };
  for (const at of ['mail', 'rcpt', 'data_command', 'data'] as const) {
    const domain = `refuses-${at.replace('_', '-')}.test`;
    await ownServer(domain, { phases: { [at]: refusal } });
    const { status, recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    assert.deepEqual([status, recipients[0].attempts], ['bounced', 1], at);
    assert.equal(recipients[0].smtp.code, 550, at);
  }
});

test('a temporary refusal of any length is tried again', async () => {
  const mx = await ownServer('later.test', {
    phases: { rcpt: [{ raw: LINES(450, 5000), times: 10 }, '250 2.1.5 Ok'] },
  });
  const id = await journey.send({ to: 'kim@later.test' });
  const { recipients } = await journey.attempted(id);
  assert.deepEqual([recipients[0].status, recipients[0].smtp.code], ['deferred', 450]);
  assert.equal((await journey.retry(id)).status, 'delivered');
  assert.equal(mx.messages.length, 1);
});
