/** Test keys: everything is the same, except that a simulator answers instead of a mail server. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { EMAIL } from '../support/api.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const dns = await startFakeDns();
const service = await startService({ dns, env: { LETTERHAUS_LIMIT_SENDING: '1000/60' } });
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});

type Body = ApiResponse['body'];

const post = (to: string, change: object = {}) =>
  service.request('POST', '/v1/emails', { body: { ...EMAIL, to, ...change } });

/** Returns the `type` of each event of an email after the first. */
async function eventsOf(id: string): Promise<string[]> {
  const { body } = await service.request('GET', `/v1/emails/${id}/events`);
  const [first, ...rest] = body.data.map(({ type }: Body) => type as string);
  assert.equal(first, 'email.queued');
  return rest;
}

async function recipientOf(id: string): Promise<Body> {
  return (await service.email(id)).recipients[0];
}

/** Lets the time of retries pass until the email has the status. */
async function passTimeUntil(id: string, status: string): Promise<Body> {
  return waitFor(
    async () => {
      const email = await service.email(id);
      if (email.status === status) return email;
      const { next_attempt_at: next } = email.recipients[0];
      const [{ now }] = await service.sql('select app_now() as now');
      if (next !== null && Date.parse(next) > now.getTime() + 1_000) {
        await service.clock.advance({ seconds: 1 });
      }
      return null;
    },
    { what: `${id} to be ${status}` },
  );
}

const suppressionOf = async (address: string) =>
  (
    await service.sql('select reason, source_email_id from suppressions where address_key = $1', [
      address,
    ])
  )[0] ?? null;

/** Address, final status, its events, SMTP code and enhanced code, and why it is suppressed then. */
const SCENARIOS: [string, string, string[], [number, string] | null, string | null][] = [
  ['delivered', 'delivered', ['email.delivered'], [250, '2.0.0'], null],
  ['bounced', 'bounced', ['email.bounced'], [550, '5.1.1'], 'hard_bounce'],
  ['blocked', 'bounced', ['email.bounced'], [550, '5.7.1'], null],
  [
    'complained',
    'complained',
    ['email.delivered', 'email.complained'],
    [250, '2.0.0'],
    'complaint',
  ],
  ['suppressed', 'suppressed', ['email.suppressed'], null, null],
  ['anybody', 'delivered', ['email.delivered'], [250, '2.0.0'], null],
];

for (const [name, status, events, reply, suppressed] of SCENARIOS) {
  for (const local of [name, `${name}+label`, `${name.toUpperCase()}+more+labels`]) {
    const address = `${local}@simulator.test`;
    test(`${address} ends ${status}`, async () => {
      const id = await service.send({ to: address });
      await service.waitForStatus(id, status);
      assert.deepEqual(await eventsOf(id), events);
      const recipient = await recipientOf(id);
      assert.deepEqual([recipient.status, recipient.next_attempt_at], [status, null]);
      if (reply !== null) {
        assert.deepEqual([recipient.smtp.code, recipient.smtp.enhanced_code], reply);
        assert.equal(recipient.attempts, 1);
      }
      assert.equal(status === 'delivered', recipient.reason === null);
      const entry = await suppressionOf(address.toLowerCase());
      assert.equal(entry?.reason ?? null, suppressed);
      if (entry !== null) assert.equal(entry.source_email_id, id);
    });
  }
}

test('deferred is deferred twice for seconds and then delivered', async () => {
  const id = await service.send({ to: 'deferred@simulator.test' });
  const first = await service.waitForStatus(id, 'deferred');
  const [recipient] = first.recipients;
  assert.equal(Math.floor(recipient.smtp.code / 100), 4);
  assert.equal(typeof recipient.reason.advice, 'string');
  const waitMs = Date.parse(recipient.next_attempt_at) - Date.parse(first.created_at);
  assert.ok(waitMs > 500 && waitMs < 60_000, String(waitMs));
  const delivered = await passTimeUntil(id, 'delivered');
  assert.equal(delivered.recipients[0].attempts, 3);
  const delayed = 'email.delivery_delayed';
  assert.deepEqual(await eventsOf(id), [delayed, delayed, 'email.delivered']);
});

test('full is deferred until it expires, and then failed with reason expired', async () => {
  const id = await service.send({ to: 'full@simulator.test', expires_in: 60 });
  const { recipients } = await service.waitForStatus(id, 'deferred');
  assert.deepEqual([recipients[0].smtp.code, recipients[0].smtp.enhanced_code], [452, '4.2.2']);
  await service.clock.advance({ seconds: 61 });
  const failed = await service.waitForStatus(id, 'failed');
  const [recipient] = failed.recipients;
  assert.equal(recipient.reason.category, 'expired');
  assert.equal((await eventsOf(id)).at(-1), 'email.failed');
  assert.equal(await suppressionOf('full@simulator.test'), null);
  assert.equal((await post('full@simulator.test')).status, 202);
});

test('slow is delivered after 30 seconds', async () => {
  const id = await service.send({ to: 'slow@simulator.test' });
  const isWaiting = `select 1 from queue
                      where email_id = $1 and holder is null
                        and due_at - app_now() between '20 s' and '30 s'`;
  await waitFor(async () => (await service.sql(isWaiting, [id])).length === 1, {
    what: 'the simulator to take its time',
  });
  assert.deepEqual(await eventsOf(id), []);
  await service.clock.advance({ seconds: 32 });
  const delivered = await service.waitForStatus(id, 'delivered');
  assert.equal(delivered.recipients[0].attempts, 1);
  assert.deepEqual(await eventsOf(id), ['email.delivered']);
});

test('the addresses of resend.dev work, other addresses there are delivered', async () => {
  for (const [name, status] of [
    ['delivered', 'delivered'],
    ['bounced', 'bounced'],
    ['complained', 'complained'],
    ['suppressed', 'suppressed'],
    ['bounced+label', 'bounced'],
    ['blocked', 'delivered'],
    ['full', 'delivered'],
  ]) {
    const id = await service.send({ to: `${name}@resend.dev` });
    await service.waitForStatus(id, status!);
  }
  for (const to of ['bounced@gmail.com', 'bounced@sub.simulator.test', 'x@nowhere.invalid']) {
    await service.waitForStatus(await service.send({ to }), 'delivered');
  }
});

test('each recipient has its own final status, and the email has the worst of them', async () => {
  const endings = {
    'delivered+all@simulator.test': 'delivered',
    'bounced+all@simulator.test': 'bounced',
    'suppressed+all@simulator.test': 'suppressed',
    'complained+all@simulator.test': 'complained',
  };
  const [to, cc, ...bcc] = Object.keys(endings);
  const id = await service.send({ to, cc, bcc });
  const email = await service.waitForStatus(id, 'complained');
  const ended = email.recipients.map(({ address, status }: Body) => [address, status]);
  assert.deepEqual(Object.fromEntries(ended), endings);
  const { body } = await service.request('GET', `/v1/emails/${id}/events`);
  assert.deepEqual(
    body.data.map(({ number }: Body) => number),
    [1, 2, 3, 4, 5, 6],
  );
  for (const [address, status] of Object.entries(endings)) {
    const events = body.data.filter(({ recipient }: Body) => recipient === address);
    assert.equal(events.at(-1).type, `email.${status}`);
  }
});

test('a message to the simulator is composed and signed, and always the same', async () => {
  const id = await service.send({ to: 'delivered@simulator.test' });
  const path = `/v1/emails/${id}/content`;
  const before = (await service.request('GET', path)).text;
  await service.waitForStatus(id, 'delivered');
  assert.equal((await service.request('GET', path)).text, before);
  assert.match(before, /^DKIM-Signature: .*\bd=acme\.test\b/ims);
});

test('the simulator makes no DNS query', () => {
  assert.deepEqual(dns.queries, []);
});
