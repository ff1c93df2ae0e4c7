/** Each step of the dialogue, refused temporarily and permanently: the status of the email. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { FakePhase } from '../support/fake-mx.ts';
import { type MailServer, startJourney } from '../support/journey.ts';

// One worker: its poll after the jump of time finds everything at once.
const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

type Verdict = { at: FakePhase; says: string; status: string; category: string };

const VERDICTS: readonly Verdict[] = [
  // Before MAIL a server speaks of the session: nothing is final.
  { at: 'greeting', says: '421 4.3.2 Too busy', status: 'deferred', category: 'network' },
  { at: 'greeting', says: '554 5.7.1 Not you', status: 'deferred', category: 'policy' },
  { at: 'ehlo', says: '450 4.3.2 Later', status: 'deferred', category: 'network' },
  { at: 'mail', says: '450 4.3.2 Later', status: 'deferred', category: 'network' },
  { at: 'mail', says: '550 5.7.1 SPF check failed', status: 'bounced', category: 'authentication' },
  { at: 'rcpt', says: '450 4.2.0 Greylisted', status: 'deferred', category: 'greylist' },
  { at: 'rcpt', says: '421 4.7.0 Too many connections', status: 'deferred', category: 'policy' },
  { at: 'rcpt', says: '550 5.1.1 User unknown', status: 'bounced', category: 'mailbox' },
  // RFC 5321 §4.5.3.1.10: 552 once meant "too many recipients".
  { at: 'rcpt', says: '552 5.2.2 Over quota', status: 'deferred', category: 'quota' },
  { at: 'rcpt', says: '550 Ip frequency limited', status: 'deferred', category: 'policy' },
  { at: 'data_command', says: '451 4.3.0 Later', status: 'deferred', category: 'network' },
  { at: 'data_command', says: '554 5.7.1 No', status: 'bounced', category: 'policy' },
  { at: 'data', says: '451 4.7.1 Try again later', status: 'deferred', category: 'greylist' },
  { at: 'data', says: '552 5.2.2 Over quota', status: 'bounced', category: 'quota' },
  { at: 'data', says: '554 5.7.1 Spam detected', status: 'bounced', category: 'content' },
];

type Sent = Verdict & { mx: MailServer; to: string; id: string };

const sent: Sent[] = await Promise.all(
  VERDICTS.map(async (verdict, index) => {
    const { at, says } = verdict;
    const domain = `verdict${index}.test`;
    // Each server is a provider of its own, so that a reply of one does not slow the others.
    const phases = { [at]: says };
    const mx = await journey.mailServer(domain, { phases }, { provider: domain });
    const to = `kim@${domain}`;
    return { ...verdict, mx, to, id: await journey.send({ to }) };
  }),
);

for (const { at, says, status, category, mx, id } of sent) {
  test(`${says} to ${at}: ${status}, ${category}`, async () => {
    const [recipient] = (await journey.attempted(id)).recipients;
    assert.deepEqual([recipient.status, recipient.attempts], [status, 1]);
    assert.equal(recipient.reason.category, category);
    assert.equal(recipient.smtp.code, Number(says.slice(0, 3)));
    const [, { attempt }] = await journey.timeline(id);
    assert.equal(attempt.phase, at);
    assert.equal(mx.messages.length, 0);
  });
}

test('mail refused temporarily arrives later, and only an unknown mailbox is suppressed', async () => {
  for (const { mx } of sent) mx.set({});
  await journey.pass({ hours: 5 });
  for (const { status, id, to, category } of sent) {
    assert.equal((await journey.ended(id)).status, status === 'deferred' ? 'delivered' : status);
    const draft = { from: 'hello@acme.example', to, subject: 'Again', text: 'Again' };
    const again = await journey.request('POST', '/v1/emails', draft);
    assert.equal(again.status, category === 'mailbox' ? 422 : 202, to);
    if (again.status === 202) {
      assert.equal((await journey.ended(again.body.id)).status, 'delivered');
    }
  }
});
