/** Excessive, circular, truncated and malformed DNS answers for a recipient's domain. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { FakeFailure } from '../support/fake-dns.ts';
import { startJourney } from '../support/journey.ts';

// One worker: its poll after the jump of time finds everything at once.
const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

/** Ten servers in two families, for finding the provider and for the attempt; equals are shuffled. */
const QUESTIONS_MAX = 60;

function questionsBelow(suffix: string): number {
  return journey.dns.queries.filter(({ name }) => name.endsWith(suffix)).length;
}

test('of 1,500 MX records the best is used, and few others are looked up', async () => {
  const mx = await journey.mailServer('crowd.test');
  const others = Array.from({ length: 1_499 }, (_, at) => `${at + 20} m${at}.others.test`);
  journey.dns.set('crowd.test', 'MX', [...others, `10 ${mx.name}`]);
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@crowd.test' }));
  assert.deepEqual([recipients[0].status, recipients[0].attempts], ['delivered', 1]);
  assert.ok(
    questionsBelow('.others.test') <= QUESTIONS_MAX,
    `${questionsBelow('.others.test')} questions`,
  );
});

test('a domain with 1,000 MX hosts that do not exist bounces after few queries', async () => {
  const names = Array.from({ length: 1_000 }, (_, at) => `10 m${at}.nowhere.test`);
  journey.dns.set('empty-crowd.test', 'MX', names);
  const id = await journey.send({ to: 'kim@empty-crowd.test' });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].smtp.enhanced_code], ['bounced', '5.4.4']);
  assert.ok(
    questionsBelow('.nowhere.test') <= QUESTIONS_MAX,
    `${questionsBelow('.nowhere.test')} questions`,
  );
});

test('a packet with 4,000 records of one mail server counts as one mail server', async () => {
  const mx = await journey.mailServer('unused.test');
  journey.dns.set('packed.test', 'A', [mx.address]);
  journey.dns.setFailure('packed.test', 'crowded');
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@packed.test' }));
  assert.deepEqual([recipients[0].status, recipients[0].smtp.mx], ['delivered', 'packed.test']);
  assert.equal(mx.connections, 1);
});

const LOOPS: Record<string, Record<string, string>> = {
  'is an alias of itself': { 'loop0.test': 'loop0.test' },
  'is an alias of an alias of it': { 'loop1.test': 'back1.test', 'back1.test': 'loop1.test' },
  'leads through ten aliases': Object.fromEntries(
    Array.from({ length: 10 }, (_, at) => [
      at === 0 ? 'loop2.test' : `hop${at}.test`,
      `hop${at + 1}.test`,
    ]),
  ),
};

for (const [index, [what, aliases]] of Object.entries(LOOPS).entries()) {
  test(`an email to a domain that ${what} is deferred with the reason`, async () => {
    for (const [name, target] of Object.entries(aliases)) journey.dns.set(name, 'CNAME', [target]);
    const id = await journey.send({ to: `kim@loop${index}.test` });
    await waits(id, /leads through a loop or more than 8 CNAME records/);
  });
}

test('an email to a domain whose mail server is a CNAME to itself is deferred with the reason', async () => {
  journey.dns.set('mx-loop.test', 'MX', ['10 mx.mx-loop.test']);
  journey.dns.set('mx.mx-loop.test', 'CNAME', ['mx.mx-loop.test']);
  await waits(await journey.send({ to: 'kim@mx-loop.test' }), /leads through a loop/);
});

const BROKEN: Record<string, { failure: FakeFailure; says: RegExp }> = {
  'that is cut off even over TCP': { failure: 'truncated_only', says: /a wrong response over TCP/ },
  'that is noise': { failure: 'garbage', says: /a malformed response/ },
  'that claims five thousand records and has one': {
    failure: 'overcounted',
    says: /a malformed response/,
  },
  'that names other servers': { failure: 'referral', says: /a referral instead of an answer/ },
  'that is a refusal': { failure: 'refused', says: /REFUSED/ },
};

test('malformed DNS answers defer the email until the DNS recovers, and delay no other mail', async (t) => {
  const good = await journey.mailServer('well.test', {}, { provider: 'well.test' });
  const sent: { what: string; domain: string; id: string; says: RegExp }[] = [];
  for (const [index, [what, { failure, says }]] of Object.entries(BROKEN).entries()) {
    const domain = `broken${index}.test`;
    await journey.mailServer(domain, {}, { provider: domain });
    journey.dns.setFailure(domain, failure);
    sent.push({ what, domain, says, id: await journey.send({ to: `kim@${domain}` }) });
  }
  await journey.ended(await journey.send({ to: 'kim@well.test' }));
  assert.equal(good.messages.length, 1, 'others have their mail meanwhile');

  for (const { what, id, says } of sent) await t.test(`an answer ${what}`, () => waits(id, says));
  for (const { domain } of sent) journey.dns.setFailure(domain, null);
  await journey.pass({ hours: 5 });
  for (const { id } of sent) assert.equal((await journey.ended(id)).status, 'delivered');
});

test('a truncated DNS answer is requested again over TCP', async () => {
  const mx = await journey.mailServer('long.test');
  journey.dns.setFailure('long.test', 'truncated');
  await journey.ended(await journey.send({ to: 'kim@long.test' }));
  assert.equal(mx.messages.length, 1);
});

async function waits(id: string, says: RegExp): Promise<void> {
  const { status, recipients } = await journey.attempted(id);
  const [{ smtp, reason, next_attempt_at: nextAttemptAt }] = recipients;
  assert.deepEqual([status, smtp.code, smtp.enhanced_code], ['deferred', null, '4.4.3']);
  assert.deepEqual([reason.category, reason.blame], ['network', 'receiver']);
  assert.match(smtp.message, says);
  assert.ok(nextAttemptAt !== null);
}
