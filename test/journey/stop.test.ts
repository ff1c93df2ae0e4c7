/** The service is stopped in the middle of its work, as by a restart or an update. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { type MailServer, startJourney } from '../support/journey.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

// A hanging server is given up well before a stop would cut its attempt off by the clock alone.
const journey = await startJourney({ LETTERHAUS_SMTP_TIMEOUT_S: '10' });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/** Sends one email after the other until the service takes no more. */
async function sendUntilRefused(domain: string, accepted: string[]): Promise<void> {
  const key = await journey.key();
  const body = { from: 'us@acme.example', to: `kim@${domain}`, subject: 'Hi', text: 'Hi' };
  for (;;) {
    const sending = service.request('POST', '/v1/emails', { key, body });
    const response = await sending.catch(() => null);
    if (response === null) return;
    if (response.status !== 202) {
      assert.deepEqual([response.status, response.body.error.code], [503, 'service_unavailable']);
      return;
    }
    accepted.push(response.body.id);
  }
}

/** The ids of the emails that have arrived, as often as they have. */
function arrived(servers: readonly MailServer[]): string[] {
  const raw = servers.flatMap(({ messages }) => messages.map((message) => message.raw.toString()));
  return raw.map((text) => /^Message-ID: <([^@]+)@/im.exec(text)?.[1] ?? 'none');
}

const STOPS = {
  'SIGTERM to the service': () => service.stop('SIGTERM'),
  'a Ctrl-C to its whole process group': () => service.interrupt(),
};

for (const [index, [what, stop]] of Object.entries(STOPS).entries()) {
  test(`a stop under load by ${what} loses and repeats no email`, async () => {
    const domains = ['one', 'two', 'three'].map((name) => `${name}${index}.test`);
    const slow = { phases: { data: { reply: '250 2.0.0 Taken', dripMs: 150 } } };
    const servers = await Promise.all(domains.map((domain) => journey.mailServer(domain, slow)));
    const count = () => servers.reduce((sum, { messages }) => sum + messages.length, 0);
    const accepted: string[] = [];
    const clients = [...domains, ...domains].map((domain) => sendUntilRefused(domain, accepted));
    const hasBacklog = () => count() > 0 && accepted.length > count() + 200;
    await waitFor(hasBacklog, { what: 'a backlog', timeoutMs: 60_000 });
    assert.equal(await stop(), 0);
    await Promise.all(clients);
    assert.ok(count() < accepted.length, 'the test needs a backlog at the stop');

    for (const mx of servers) mx.set({});
    await service.restart();
    const allCame = () => count() >= accepted.length;
    await waitFor(allCame, { what: `${accepted.length} emails` });
    for (const id of accepted.slice(-3)) await journey.ended(id);
    assert.deepEqual(arrived(servers).toSorted(), accepted.toSorted());
  });
}

test('a service that took over the database of a killed one stops in order', async () => {
  await using own = await startService({ database: 'own', args: ['--workers', '1'] });
  await own.killGroup9();
  await own.restart();
  await own.logged(/Took over the database/);
  assert.equal(await own.stop(), 0, own.logs);
});

test('a stop does not wait for a server that hangs before the final dot, and the next start sends the email', async () => {
  const mx = await journey.mailServer('hanging.test', { phases: { rcpt: {} } });
  const id = await journey.send({ to: 'kim@hanging.test' });
  const isAsked = () => mx.sessions.some(({ lines }) => lines.some((line) => /RCPT/.test(line)));
  await waitFor(isAsked, { what: 'the recipient to be named' });
  assert.equal(await service.stop('SIGTERM'), 0);
  mx.set({});
  await service.restart();
  const { status, recipients } = await journey.ended(id);
  // Waiting until the server is given up would have been an attempt that failed.
  assert.deepEqual([status, recipients[0].attempts, mx.messages.length], ['delivered', 1, 1]);
});
