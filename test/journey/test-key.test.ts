/** Mail of a test key takes every step except the connection to a mail server. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney({}, { environment: 'test' });
after(() => journey[Symbol.asyncDispose]());

async function again(to: string): Promise<number> {
  const draft = { from: 'hello@acme.test', to, subject: 'Again', text: 'Again' };
  return (await journey.request('POST', '/v1/emails', draft)).status;
}

type Ending = { status: string; code?: number; enhanced?: string; story: string[] };

const delivered: Ending = {
  status: 'delivered',
  code: 250,
  story: ['queued', 'delivered'],
};

/** By address: how it ends without any time passing, the first time and the second. */
const ENDINGS: Record<string, Ending> = {
  'delivered@simulator.test': delivered,
  'delivered+order-42@simulator.test': delivered,
  'anybody@simulator.test': delivered,
  'kim@acme.example': delivered,
  'delivered@resend.dev': delivered,
  'blocked@resend.dev': delivered, // not one of the names known there
  'bounced@simulator.test': {
    status: 'bounced',
    code: 550,
    enhanced: '5.1.1',
    story: ['queued', 'bounced'],
  },
  'bounced+again@resend.dev': {
    status: 'bounced',
    code: 550,
    enhanced: '5.1.1',
    story: ['queued', 'bounced'],
  },
  'blocked@simulator.test': {
    status: 'bounced',
    code: 550,
    enhanced: '5.7.1',
    story: ['queued', 'bounced'],
  },
  'suppressed@simulator.test': { status: 'suppressed', story: ['queued', 'suppressed'] },
};

for (const [to, ending] of Object.entries(ENDINGS)) {
  test(`${to} is ${ending.status}, each time`, async () => {
    for (const _time of [1, 2]) {
      const id = await journey.send({ to });
      const { status, recipients, environment } = await journey.ended(id);
      assert.deepEqual([status, environment], [ending.status, 'test']);
      const { smtp } = recipients[0];
      assert.equal(smtp?.code, ending.code);
      if (ending.enhanced !== undefined) assert.equal(smtp.enhanced_code, ending.enhanced);
      assert.deepEqual(await journey.story(id), ending.story);
    }
  });
}

test('complained@simulator.test is delivered, complains and is listed, each time', async () => {
  for (const to of ['complained@simulator.test', 'complained@resend.dev']) {
    for (const _time of [1, 2]) {
      const id = await journey.send({ to });
      await journey.service.waitForStatus(id, 'complained');
      assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'complained']);
    }
    const { data } = await journey.webhook(
      (event) => event.type === 'suppression.added' && event.data.address === to,
    );
    assert.deepEqual([data.reason, data.simulated], ['complaint', true]);
  }
});

test('deferred@simulator.test is deferred twice for seconds, then delivered', async () => {
  const id = await journey.send({ to: 'deferred@simulator.test' });
  // The next attempt comes after two and four seconds by itself, so that a slow test may see the second or the third.
  await journey.attempted(id);
  await journey.pass({ seconds: 10 });
  await journey.attempted(id, 2);
  await journey.pass({ seconds: 10 });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].attempts], ['delivered', 3]);
  const replies = (await journey.timeline(id)).map(({ type, data }) => [type, data.smtp?.code]);
  const [queued, first, second, delivery] = replies;
  assert.deepEqual(queued, ['email.queued', undefined]);
  for (const [type, code] of [first!, second!]) {
    assert.deepEqual([type, Math.floor(code / 100)], ['email.delivery_delayed', 4]);
  }
  assert.deepEqual(delivery, ['email.delivered', 250]);
});

test('full@simulator.test is deferred until the email expires', async () => {
  const id = await journey.send({ to: 'full@simulator.test', expires_in: 60 });
  const { recipients: open } = await journey.attempted(id);
  assert.deepEqual([open[0].smtp.code, open[0].smtp.enhanced_code], [452, '4.2.2']);
  await journey.pass({ seconds: 61 });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].reason.category], ['failed', 'expired']);
  assert.equal(await again('full@simulator.test'), 202);
});

test('slow@simulator.test is delivered after half a minute', async () => {
  const id = await journey.send({ to: 'slow@simulator.test' });
  // Its attempt has begun when something that came later has gone through.
  await journey.ended(await journey.send({ to: 'delivered@simulator.test' }));
  // Below half a minute, also with the time that a slow machine adds.
  await journey.pass({ seconds: 10 });
  await journey.ended(await journey.send({ to: 'delivered@simulator.test' }));
  assert.equal((await journey.email(id)).completed_at, null);
  await journey.pass({ seconds: 21 });
  assert.equal((await journey.ended(id)).status, 'delivered');
  assert.deepEqual(await journey.story(id), ['queued', 'delivered']);
});

test('each recipient of one email has the outcome of its address', async () => {
  const to = ['delivered@simulator.test', 'blocked@simulator.test', 'kim@acme.example'];
  const { status, recipients } = await journey.ended(await journey.send({ to }));
  assert.equal(status, 'bounced');
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['delivered', 'bounced', 'delivered'],
  );
});

test('mail with a test key causes no DNS query and no connection to a mail server', async () => {
  const mx = await journey.mailServer('real.test');
  await journey.ended(await journey.send({ to: 'kim@real.test' }));
  assert.equal(mx.connections, 0);
  assert.deepEqual(journey.dns.queries, []);
});
