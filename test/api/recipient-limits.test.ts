/** Limits: the limit of sending counts emails; recipients can have a limit of their own. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const env = { LETTERHAUS_LIMIT_SENDING: '30/60', LETTERHAUS_LIMIT_RECIPIENTS: '40/60' };
const service = await startService({ env, args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());

const addresses = (count: number) =>
  Array.from({ length: count }, (_, n) => `delivered+${n}@simulator.test`);
const send = (count: number, key = service.testKey): Promise<ApiResponse> =>
  service.request('POST', '/v1/emails', { key, body: { ...EMAIL, to: addresses(count) } });
const newWindow = () => service.clock.advance({ seconds: 61 });

async function recipientsStored(): Promise<number> {
  const [row] = await service.sql('select count(*)::int as count from recipients');
  return row.count;
}

const RECIPIENTS_POLICY = '40;w=60;comment="recipients"';

test('recipients have a limit beside emails, over HTTP and SMTP', async () => {
  await newWindow();
  const before = await recipientsStored();
  const responses = await Promise.all(Array.from({ length: 25 }, () => send(4)));
  const accepted = responses.filter(({ status }) => status === 202);
  assert.equal(accepted.length, 10);
  assert.equal(await recipientsStored(), before + 40);
  for (const response of responses) {
    if (response.status === 202) continue;
    assertFailure(response, 429, 'rate_limit_error', /40 recipients per 60 s/);
    const { headers } = response;
    assert.equal(headers.get('ratelimit-policy'), RECIPIENTS_POLICY);
    assert.equal(headers.get('limit'), '40');
    assert.equal(headers.get('ratelimit-remaining'), headers.get('remaining'));
    assert.ok(Number(headers.get('retry-after')) >= 1);
  }
  await newWindow();
  assert.equal((await send(4)).status, 202);
});

test('an email within the limit is accepted after one that exceeds it', async () => {
  await newWindow();
  assert.equal((await send(35)).status, 202);
  const tooMany = await send(6);
  assertFailure(
    tooMany,
    429,
    'rate_limit_error',
    /This email has 6 recipients, but only 5 of the limit/,
  );
  assert.equal(tooMany.headers.get('ratelimit-remaining'), '5');
  const fits = await send(5);
  assert.equal(fits.status, 202);
  // Where nothing is refused the headers are about emails.
  assert.equal(fits.headers.get('ratelimit-policy'), '30;w=60');
});

test('an email with more recipients than the limit is refused with the reason', async () => {
  await newWindow();
  assertFailure(
    await send(41),
    429,
    'rate_limit_error',
    /41 recipients, more than the limit of 40/,
  );
});

test('the limit on emails applies when it is reached first', async () => {
  await newWindow();
  const responses = await Promise.all(Array.from({ length: 35 }, () => send(1)));
  const limited = responses.filter(({ status }) => status === 429);
  assert.equal(limited.length, 5);
  for (const { headers } of limited) assert.equal(headers.get('ratelimit-policy'), '30;w=60');
});

test('an idempotent repetition counts no recipients', async () => {
  await newWindow();
  const body = { ...EMAIL, to: addresses(30) };
  const headers = { 'idempotency-key': 'many' };
  const ask = () => service.request('POST', '/v1/emails', { body, headers });
  assert.deepEqual([(await ask()).status, (await ask()).status], [202, 200]);
  assert.equal((await send(10)).status, 202);
});

test('an operator can set and reset the limit on recipients of a project', async () => {
  const set = (limit: string) =>
    service.cliJson(
      'projects',
      'set-limit',
      limit,
      '--category',
      'recipients',
      '--environment',
      'test',
    );
  await newWindow();
  await set('3/60');
  assert.deepEqual([(await send(2)).status, (await send(2)).status], [202, 429]);
  await set('default');
  assert.equal((await send(38)).status, 202);
});

test('by default 50 recipients for each email are within the limit', async () => {
  await using other = await startService({ env: { LETTERHAUS_LIMIT_SENDING: '3/60' } });
  const ask = () => other.request('POST', '/v1/emails', { body: { ...EMAIL, to: addresses(50) } });
  const responses = [await ask(), await ask(), await ask(), await ask()];
  assert.deepEqual(
    responses.map(({ status }) => status),
    [202, 202, 202, 429],
  );
  assert.equal(responses[3]?.headers.get('ratelimit-policy'), '3;w=60');
});
