/** Suppressed addresses: by request, or because a mailbox was full for too long. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { startJourney } from '../support/journey.ts';
import { type ApiResponse } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

type Body = ApiResponse['body'];

const FULL = '550 5.2.2 Mailbox full';
const FULL_FOR_NOW = '452 4.2.2 Mailbox full, try again later';

const one = (address: string) => `/v1/suppressions/${encodeURIComponent(address)}`;

async function suppress(address: string, more: object = {}): Promise<void> {
  const { status, text } = await journey.request('POST', '/v1/suppressions', { address, ...more });
  assert.equal(status, 201, text);
}

const ask = (to: string) =>
  journey.request('POST', '/v1/emails', {
    from: 'hello@acme.example',
    to,
    subject: 'Hello',
    text: 'Hello',
  });

const entryOf = async (address: string): Promise<Body> => {
  const { status, body } = await journey.request('GET', one(address));
  return status === 200 ? body : null;
};

test('an email to a suppressed address is refused until the entry is removed', async () => {
  const mx = await journey.mailServer('closed.test');
  await suppress('kim@closed.test');
  assertFailure(await ask('Kim@closed.test'), 422, 'suppressed');
  const both = await journey.send({ to: ['kim@closed.test', 'lee@closed.test'] });
  const { recipients } = await journey.ended(both);
  assert.deepEqual(
    recipients.map(({ status }: Body) => status),
    ['suppressed', 'delivered'],
  );
  await journey.request('DELETE', one('kim@closed.test'));
  const id = await journey.send({ to: 'kim@closed.test' });
  assert.equal((await journey.ended(id)).status, 'delivered');
  assert.equal(mx.messages.length, 2);
});

test('an address that is suppressed while its email waits gets no further attempt, with the reason', async () => {
  const mx = await journey.mailServer('waiting.test', { greylist: 1 });
  const id = await journey.send({ to: 'kim@waiting.test' });
  await journey.attempted(id);
  await suppress('KIM@waiting.test', { reason: 'unsubscribe' });
  await journey.pass({ hours: 5 });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].attempts], ['suppressed', 1]);
  assert.equal(mx.messages.length, 0);
  assert.deepEqual(await journey.story(id), ['queued', 'delivery_delayed', 'suppressed']);
});

test('an expired suppression does not stop mail', async () => {
  await journey.mailServer('later.test');
  const expires_at = new Date(Date.now() + 400 * 86_400_000).toISOString();
  await suppress('kim@later.test', { expires_at });
  assertFailure(await ask('kim@later.test'), 422, 'suppressed');
  await journey.service.sql(
    `update suppressions set expires_at = app_now() where address_key = 'kim@later.test'`,
  );
  const id = await journey.send({ to: 'kim@later.test' });
  assert.equal((await journey.ended(id)).status, 'delivered');
});

/** Has them fail for good, one after the other. */
async function failAtFullMailbox(to: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const id = await journey.send({ to });
    assert.equal((await journey.ended(id)).recipients[0].reason.category, 'quota');
    ids.push(id);
  }
  return ids;
}

const failuresOf = async (address: string): Promise<number> => {
  const sql = 'select count(*)::int as n from quota_failures where address_key = $1';
  return (await journey.service.sql(sql, [address]))[0].n;
};

test('a mailbox that was full for five emails within a week is suppressed for two weeks', async () => {
  const address = 'kim@full.test';
  const mx = await journey.mailServer('full.test', { recipients: { kim: FULL } });
  await failAtFullMailbox(address, 4);
  await waitFor(async () => (await failuresOf(address)) === 4, { what: 'four to be counted' });
  assert.equal(await entryOf(address), null);

  const [last] = await failAtFullMailbox(address, 1);
  const entry = await waitFor(() => entryOf(address), { what: 'the address to be suppressed' });
  assert.deepEqual([entry.reason, entry.source_email_id], ['hard_bounce', last]);
  assert.equal((Date.parse(entry.expires_at) - Date.parse(entry.created_at)) / 86_400_000, 14);
  assert.equal(entry.history[0].by, 'delivery');
  await journey.webhook(
    ({ type, data }) => type === 'suppression.added' && data.address === address,
  );
  assertFailure(await ask(address), 422, 'suppressed');

  await journey.pass({ hours: 14 * 24 + 1 });
  mx.set({ recipients: {} });
  const id = await journey.send({ to: address });
  assert.equal((await journey.ended(id)).status, 'delivered');
});

test('four in a week and one in the next do not suppress', async () => {
  const address = 'lee@weekly.test';
  await journey.mailServer('weekly.test', { recipients: { lee: FULL } });
  await failAtFullMailbox(address, 4);
  await waitFor(async () => (await failuresOf(address)) === 4, { what: 'four to be counted' });
  await journey.pass({ hours: 7 * 24 + 1 });
  await failAtFullMailbox(address, 1);
  await waitFor(async () => (await failuresOf(address)) !== 4, { what: 'the last to be counted' });
  assert.equal(await entryOf(address), null);
});

test('an email that expires at a full mailbox counts once, regardless of its attempts', async () => {
  const address = 'max@expires.test';
  await journey.mailServer('expires.test', { recipients: { max: FULL_FOR_NOW } });
  const id = await journey.send({ to: address });
  await journey.attempted(id);
  await journey.retry(id);
  assert.equal(await failuresOf(address), 0);
  await journey.pass({ hours: 6 * 24 });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].reason.category], ['failed', 'expired']);
  await waitFor(async () => (await failuresOf(address)) === 1, { what: 'it to be counted' });
  assert.equal(await entryOf(address), null);
});
