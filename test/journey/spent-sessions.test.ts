/**
 * Mail servers that take a limited number of messages on one connection, and refuse the next one with a
 * 5xx. A refusal of MAIL or RSET on a kept session says nothing about the message: it is tried on a new
 * session first.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

const SPENT = '554 5.7.0 One message per connection';

const SERVERS: Record<string, MxBehaviour> = {
  'refuses the second MAIL': { sessionLimit: { messages: 1, reply: SPENT } },
  'refuses the second MAIL, without PIPELINING': {
    pipelining: false,
    sessionLimit: { messages: 1, reply: SPENT },
  },
  'refuses the fourth MAIL and hangs up': {
    sessionLimit: { messages: 3, reply: { reply: SPENT, drop: 'fin' } },
  },
  'ends the session with a 421': {
    sessionLimit: { messages: 1, reply: { reply: '421 4.7.0 One message', drop: 'fin' } },
  },
};

for (const [index, [what, behaviour]] of Object.entries(SERVERS).entries()) {
  test(`all of 20 emails arrive once at a server that ${what}`, async () => {
    const domain = `spent${index}.test`;
    const mx = await journey.mailServer(domain, behaviour, { provider: domain });
    const people = Array.from({ length: 20 }, (_, number) => `r${number}@${domain}`);
    // One after the other on kept sessions, then many at once, whose envelopes go out with the dot before.
    for (const to of people.slice(0, 5)) await delivered(await journey.send({ to }));
    await delivered(await journey.send({ to: people.slice(5) }));
    const arrived = mx.messages.flatMap(({ recipients }) => recipients);
    assert.deepEqual(arrived.toSorted(), people.toSorted());
  });
}

async function delivered(id: string): Promise<void> {
  const { recipients } = await journey.ended(id);
  for (const { status, attempts } of recipients) {
    assert.deepEqual([status, attempts], ['delivered', 1]);
  }
}

test('a 5xx to RSET after a refused recipient does not defer the next email', async () => {
  const mx = await journey.mailServer('reset.test');
  for (const [index, pipelining] of [true, false].entries()) {
    const [nobody, somebody] = [`nobody${index}@reset.test`, `jo${index}@reset.test`];
    mx.set({
      pipelining,
      recipients: { [nobody]: '550 5.1.1 No such user' },
      phases: { rset: '502 5.5.1 Not here' },
    });
    const refused = await journey.ended(await journey.send({ to: nobody }));
    assert.equal(refused.status, 'bounced');
    await delivered(await journey.send({ to: somebody }));
  }
  assert.equal(mx.messages.length, 2);
});

test('a 5xx to MAIL on a new session is final, after one more try at most', async () => {
  const domain = 'unwanted.test';
  const mx = await journey.mailServer(domain, {}, { provider: domain });
  await delivered(await journey.send({ to: `jo@${domain}` }));
  mx.set({ phases: { mail: '550 5.7.1 Your domain is not wanted here' } });
  for (const connections of [2, 3]) {
    const { status, recipients } = await journey.ended(await journey.send({ to: `jo@${domain}` }));
    assert.deepEqual(
      [status, recipients[0].attempts, recipients[0].smtp.code],
      ['bounced', 1, 550],
    );
    assert.equal(mx.connections, connections);
  }
});
