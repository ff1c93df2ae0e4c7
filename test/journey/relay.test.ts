/** All mail goes through one relay: mail that the relay accepts is `sent`, because its delivery is unknown. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { type FakeMx, startFakeMx } from '../support/fake-mx.ts';
import { CA_FILE, type Journey, startJourney } from '../support/journey.ts';

const auth = { user: 'us@acme', pass: 'p/w:1' };
const LOGIN = 'us%40acme:p%2Fw%3A1';

const linesOf = ({ sessions }: FakeMx) => sessions.flatMap(({ lines }) => lines);

/** Nothing of the recipients' domains was looked up. */
function assertNotAsked({ dns }: Journey, domain: string): void {
  assert.ok(!dns.queries.some(({ name }) => name.endsWith(domain)));
}

test('all mail goes to a relay after authentication, and its status is sent, not delivered', async () => {
  await using relay = await startFakeMx({ auth, recipients: { max: '550 5.1.1 Unknown' } });
  await using journey = await startJourney({
    LETTERHAUS_RELAY_URL: `smtp://${LOGIN}@127.0.0.1:${relay.port}`,
  });
  const to = ['kim@far.test', 'lee@away.test'];
  const id = await journey.send({ to });
  const {
    status,
    sent_at: sentAt,
    completed_at: completedAt,
    recipients,
  } = await journey.ended(id);
  assert.equal(status, 'sent');
  assert.ok(Date.parse(sentAt) <= Date.parse(completedAt));
  const [{ attempts, smtp }] = recipients;
  assert.deepEqual([attempts, smtp.code, smtp.mx, smtp.ip], [1, 250, '127.0.0.1', '127.0.0.1']);
  assert.deepEqual(await journey.story(id), ['queued', 'sent', 'sent']);
  assert.deepEqual(relay.messages.flatMap((message) => message.recipients).toSorted(), [
    'kim@far.test',
    'lee@away.test',
  ]);
  assert.match(relay.messages[0]?.raw.toString() ?? '', /^DKIM-Signature: /);
  assertNotAsked(journey, 'far.test');
  const [, { attempt }] = await journey.timeline(id);
  const transcript = attempt.transcript.join('\n');
  const secret = Buffer.from(`\0${auth.user}\0${auth.pass}`).toString('base64');
  assert.ok(linesOf(relay).includes(`C: AUTH PLAIN ${secret}`));
  assert.ok(!transcript.includes(secret) && !journey.service.logs.includes(secret));

  const refused = await journey.ended(await journey.send({ to: 'max@far.test' }));
  assert.equal(refused.status, 'bounced');

  // The password is changed and the relay restarted: mail waits until authentication works again.
  relay.set({ auth: { ...auth, pass: 'other', mechanisms: ['LOGIN'] } });
  await relay.stop();
  await relay.start();
  const waiting = await journey.send({ to: 'kim@far.test' });
  const { recipients: open } = await journey.attempted(waiting);
  assert.deepEqual([open[0].status, open[0].reason.category], ['deferred', 'authentication']);
  assert.deepEqual([open[0].reason.blame, open[0].smtp.code], ['us', 535]);
  relay.set({ auth: { ...auth, mechanisms: ['LOGIN'] } });
  assert.equal((await journey.retry(waiting)).status, 'sent');
});

test('a relay with implicit TLS is used when its certificate is valid', async () => {
  await using relay = await startFakeMx({ auth, implicitTls: true });
  await using journey = await startJourney({
    LETTERHAUS_RELAY_URL: `smtps://${LOGIN}@localhost:${relay.port}`,
    NODE_EXTRA_CA_CERTS: CA_FILE,
  });
  const { status, recipients } = await journey.ended(await journey.send({ to: 'kim@far.test' }));
  assert.equal(status, 'sent');
  assert.equal(recipients[0].smtp.tls.verified, true);
  assert.equal(relay.messages[0]?.tls, 'TLSv1.3');
});

test('a remote relay without a valid certificate gets neither mail nor password', async () => {
  await using relay = await startFakeMx({ auth, startTls: 'offered', certificate: 'self-signed' });
  await using journey = await startJourney({
    // Another way to say "this machine", which does not show that it is.
    LETTERHAUS_RELAY_URL: `smtp://${LOGIN}@0.0.0.0:${relay.port}`,
  });
  for (const tls of [undefined, 'opportunistic', 'enforced']) {
    const id = await journey.send({ to: 'kim@far.test', tls });
    const { status, recipients } = await journey.attempted(id);
    assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'tls']);
  }
  assert.ok(relay.connections > 0);
  assert.ok(!linesOf(relay).some((line) => /^C: (AUTH|MAIL)/.test(line)));
});
