/**
 * A mail server that falls silent, in every phase. The service gives each three seconds instead of RFC 5321's minutes,
 * and the emails of all tests are under way at once. On a busy machine a server that is well does not answer in one.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { type MailServer, startJourney } from '../support/journey.ts';

const journey = await startJourney({ LETTERHAUS_SMTP_TIMEOUT_S: '3' });
after(() => journey[Symbol.asyncDispose]());

type Underway = { id: string; first: MailServer; second: MailServer };

/** An email whose best server behaves so, and whose second-best is well. */
async function sendTo(name: string, behaviour: MxBehaviour, draft: object): Promise<Underway> {
  const domain = `${name}.test`;
  const first = await journey.mailServer(domain, behaviour);
  const second = await journey.mailServer(domain, {}, { preference: 20 });
  return { first, second, id: await journey.send({ to: `kim@${domain}`, ...draft }) };
}

const silentAt = (phase: string): MxBehaviour => ({ phases: { [phase]: {} } });

/** More than what the sockets between two processes hold. */
const LARGE = {
  attachments: [{ filename: 'a.bin', content: Buffer.alloc(6_000_000).toString('base64') }],
};

const BEFORE_THE_DOT: Record<string, { behaviour: MxBehaviour; draft?: object }> = {
  greeting: { behaviour: silentAt('greeting') },
  EHLO: { behaviour: silentAt('ehlo') },
  STARTTLS: { behaviour: { startTls: 'offered', ...silentAt('starttls') } },
  MAIL: { behaviour: silentAt('mail') },
  RCPT: { behaviour: silentAt('rcpt') },
  DATA: { behaviour: silentAt('data_command') },
  message: { behaviour: silentAt('body'), draft: LARGE },
  'slow greeting': { behaviour: { phases: { greeting: { raw: '2', times: 1_000, dripMs: 100 } } } },
};

const underway = await Promise.all(
  Object.entries(BEFORE_THE_DOT).map(async ([phase, { behaviour, draft = {} }], index) => {
    return [phase, await sendTo(`silent${index}`, behaviour, draft)] as const;
  }),
);
const atTheDot = await sendTo('silent-dot', silentAt('data'), {});
const inTheHandshake = await sendTo('silent-tls', { startTls: 'silent' }, {});
const atTheEnd = await sendTo('silent-quit', silentAt('quit'), {});
const alone = await journey.mailServer('alone.test', silentAt('rcpt'));
const withoutSpare = await journey.send({ to: 'kim@alone.test' });

for (const [phase, { id, first, second }] of underway) {
  test(`after a timeout at the ${phase} the next server is tried`, async () => {
    const { status, recipients } = await journey.ended(id);
    assert.equal(status, 'delivered');
    assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
    assert.deepEqual([first.messages.length, second.messages.length], [0, 1]);
  });
}

test('after a timeout behind the final dot no other server is tried', async () => {
  const { id, first, second } = atTheDot;
  const { status, recipients } = await journey.attempted(id);
  assert.equal(status, 'deferred');
  assert.match(recipients[0].smtp.message, /did not reply/);
  const [, { attempt }] = await journey.timeline(id);
  assert.deepEqual([attempt.phase, attempt.in_doubt], ['data', true]);
  assert.equal(second.connections, 0);
  first.set({});
  await journey.pass({ minutes: 40 });
  assert.equal((await journey.ended(id)).status, 'delivered');
  assert.equal(second.connections, 0);
});

test('after a timeout in the TLS handshake the email is sent in the clear', async () => {
  const { recipients } = await journey.ended(inTheHandshake.id);
  assert.deepEqual([recipients[0].attempts, recipients[0].status], [1, 'delivered']);
});

test('a timeout at QUIT does not change the delivery', async () => {
  const { status } = await journey.ended(atTheEnd.id);
  assert.equal(status, 'delivered');
  assert.equal(atTheEnd.first.messages.length, 1);
});

test('when the only server times out, the email is deferred with the reason', async () => {
  const { status, recipients } = await journey.attempted(withoutSpare);
  // Time has passed for other emails, so this one may be on its way again.
  assert.ok(['deferred', 'sending'].includes(status));
  assert.deepEqual([recipients[0].reason.category, recipients[0].smtp.mx], ['network', alone.name]);
  alone.set({});
  await journey.pass({ hours: 1 });
  assert.equal((await journey.ended(withoutSpare)).status, 'delivered');
});
